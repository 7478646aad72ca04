//! Tickets by the real daemon: made once, refused with the help desk's words, looked for where they are in doubt, and kept
//! waiting while the help desk is away, with mails that go on beside them; and those that were put off while there was none. The help desk is devkit's stand-in.

mod backfill;
mod check;
mod doubt;
mod inside;
mod killed;
mod made;
mod memory;
mod out;
mod pace;
mod scene;
mod shown;
