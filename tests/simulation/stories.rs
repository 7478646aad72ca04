//! Stories: sequences that say something by themselves, and every shrunk sequence that ever failed.

use crate::ops::{Files, FormKind, Op, Story, Sub};
use crate::run::holds;

/// Submissions without attachments, and what happens to them.
fn story(steps: &[Op]) -> Story {
    let forms = [FormKind::One, FormKind::Two, FormKind::Many, FormKind::Mixed, FormKind::One, FormKind::Two];
    let submissions = forms.map(|form| Sub(form, Files::None)).to_vec();
    Story { hold: false, submissions, steps: steps.to_vec() }
}

#[test]
fn nothing_goes_wrong() {
    holds(&story(&[Op::Deliver(0), Op::Deliver(1), Op::Deliver(2), Op::Deliver(3)]));
}
