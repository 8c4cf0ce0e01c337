//! A full disk: nothing is taken in, nothing is lost, it is said, and it goes on when there is room.

mod queue_daemon;

use queue_daemon::*;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::request::RunState;
use shoal_core::queue::work::Ending;
use std::ffi::CString;
use std::path::Path;

/// A drive of a megabyte or two; unmounted with this.
struct Small(CString);

impl Small {
    fn mount(at: &Path, bytes: usize) -> Option<Small> {
        let at = CString::new(at.to_str()?).ok()?;
        let size = CString::new(format!("size={bytes}")).ok()?;
        // SAFETY: valid strings; the folder is this test's own.
        let done = unsafe { libc::mount(c"none".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, size.as_ptr().cast()) };
        (done == 0).then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_refuses_requests_keeps_ends_on_their_host_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("q");
    std::fs::create_dir(&root).unwrap();
    let Some(_small) = Small::mount(&root, 2 << 20) else {
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
    let filler = root.join("filler");
    let fill = || {
        let mut file = std::fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    };
    fill();
    let mut large = sweep("large", 1);
    large.command.argv.push("x".repeat(1 << 20));
    let why = why_refused(submit(&mut client, &large));
    assert!(why.contains("cannot take anything in") && why.contains("free space"), "{why}");
    assert!(line.is_closed(), "what it says could not be written down");
    // The next, small one too: it is still full.
    assert!(why_refused(submit(&mut client, &sweep("small", 1))).contains("cannot take anything in"));
    assert_eq!(row(&mut client, "mlp").running, 1, "people still see what there is");
    std::fs::remove_file(&filler).unwrap();
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
