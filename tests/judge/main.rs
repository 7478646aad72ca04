//! The client of the judge against one that is scripted: every way to answer badly, and what follows from it. The judge is a
//! stand-in (`devkit::judge`): what is shown here is how answers are read and decided, not how well a model judges.

mod answers;
mod harness;
mod leaving;
mod outages;
