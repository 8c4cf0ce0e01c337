//! A full disk: nothing is taken in, nothing is lost, it is said, and it goes on when there is room.

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::request::RunState;
use shoal_core::queue::work::Ending;
use shoal_testkit::Drive;

#[test]
fn a_full_disk_refuses_requests_keeps_ends_on_their_host_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("q");
    let Some(drive) = Drive::small(&root, 2 << 20) else {
        return shoal_testkit::skip("no drive can be mounted here");
    };
    let host = FakeHost::new(folder.path());
    let how = How::at(&root).env("FAKE_AGENT", &host.path);
    let daemon = how.start();
    let mut client = daemon.client();
    submit(&mut client, &sweep("mlp", 2)).unwrap();
    let mut line = host.accept();
    line.hello("boot", 1, vec![], vec![]);
    line.starts();
    drive.fill().unwrap();
    let mut large = sweep("large", 1);
    large.command.argv.push("x".repeat(1 << 20));
    let why = why_refused(submit(&mut client, &large));
    assert!(why.contains("cannot take anything in") && why.contains("free space"), "{why}");
    assert!(line.is_closed(), "what it says could not be written down");
    // The next, small one too: it is still full.
    assert!(why_refused(submit(&mut client, &sweep("small", 1))).contains("cannot take anything in"));
    assert_eq!(row(&mut client, "mlp").running, 1, "people still see what there is");
    drive.free();
    // It comes back by itself; the end that could not be acknowledged is told again.
    let mut line = host.accept();
    line.hello("boot", 1, vec![], vec![ended(&attempt("mlp", 0, 1), Ending::Exited(0))]);
    assert_eq!(line.acknowledged(), [attempt("mlp", 0, 1)]);
    assert_eq!(line.starts()[0].attempt, attempt("mlp", 1, 1));
    submit(&mut client, &sweep("small", 1)).unwrap();
    line.say(&FromHost::Pong);
    assert_eq!(states(&mut client, "mlp"), [RunState::Finished, RunState::Running]);
    daemon.kill();
    let daemon = how.start();
    let mut client = daemon.client();
    assert_eq!(states(&mut client, "mlp"), [RunState::Finished, RunState::Running]);
    assert_eq!(row(&mut client, "small").cells, 1);
}
