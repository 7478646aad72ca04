//! The clients of grader and transcriber against ones that are scripted: every way to answer badly, and what follows from it. They
//! are stand-ins (`devkit::grader`): what is shown here is how answers are read, not how well a model grades or hears.

mod answers;
mod harness;
mod transcripts;
