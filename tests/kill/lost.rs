//! The same points, and the process lives: its request, or the answer to it, is lost on the way. The process finds
//! out by itself what stands; a mail is sent twice only where the relay had it and its 250 was lost.

use devkit::smtp::Stage as At;
use devkit::stage::Source;
use devkit::trap::Fate;

use crate::harness::Scene;
use crate::points::{Place, Point, TooLate, in_time, mails_are_as_expected, play, points};

async fn what_is_lost_on_the_way_is_found_out(source: Source) {
    let lost = points(source).into_iter().filter(|point| point.fate == Fate::Cut);
    play(lost, 6, |point| lost_from(source, point, false)).await;
}

/// Connections stay open: the network swallows what is on its way to or from the database, and the server keeps the
/// row's lock for a client that has given up.
async fn what_is_swallowed_on_the_way_is_given_up(source: Source) {
    let on_a_wire = points(source)
        .into_iter()
        .filter(|point| point.fate == Fate::Cut && matches!(point.place, Place::Wire(..)));
    play(on_a_wire, 6, |point| lost_from(source, point, true)).await;
}

devkit::with_either_source!(
    what_is_lost_on_the_way_is_found_out; at_night: what_is_swallowed_on_the_way_is_given_up
);

async fn lost_from(source: Source, point: Point, silent: bool) -> Result<(), TooLate> {
    let scene = Scene::start(source, 1).await;
    let caught = point.catch(&scene).await;
    let swallowed = if silent {
        Some(caught.trapped)
    } else {
        in_time(&caught.trapped)?;
        caught.trapped.cut();
        None
    };
    let row = scene.ended(caught.id).await;
    assert_eq!(row.status, "routed", "{}: {row:?}", point.name);
    // Too late for everybody.
    drop(swallowed);
    mails_are_as_expected(&scene, caught.id, &expected(&point)).await;
    scene.settled().await;
    scene.stop().await;
    Ok(())
}

/// The expected end with a living process.
fn expected(point: &Point) -> Point {
    let once = Point { copies: (1, 1), doubted: (false, false), attempts: 1, ..*point };
    match point.place {
        // A sent mail is recorded, an unsent one is known to be so: given back without cost. Or: the process keeps
        // what it knows until it is recorded.
        Place::Wire(_, _) | Place::Ack => once,
        // After the final dot: perhaps delivered.
        Place::Relay(At::Dot | At::Body, _) => Point { doubted: (true, false), attempts: 2, ..once },
        Place::Relay(At::AfterDot, 0) => {
            Point { copies: (2, 1), doubted: (true, false), attempts: 2, ..once }
        }
        Place::Relay(At::AfterDot, _) => {
            Point { copies: (1, 2), doubted: (false, true), attempts: 2, ..once }
        }
        // Before it: surely not.
        Place::Relay(
            At::Banner
            | At::Ehlo
            | At::Mail
            | At::Rcpt
            | At::Data
            | At::Replied
            | At::Rset
            | At::Noop
            | At::Quit,
            _,
        ) => Point { attempts: 2, ..once },
    }
}
