//! The door for people of this machine: a socket, and the kernel's word for who they are.

use super::session::serve;
use super::{Caller, MOST_CLIENTS};
use crate::queue::framing;
use crate::queue::serve::shared::Shared;
use crate::queue::serve::turn::refused;
use rustix::fs::{Gid, Mode};
use shoal_core::queue::request::{Request, Role};
use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// For the word of one too many.
const FULL: Duration = Duration::from_millis(200);

/// Opens the socket. The caller has the store's lock: one that is there is a dead daemon's.
pub fn listen(shared: &Arc<Shared>, group: Option<&str>) -> io::Result<()> {
    let path = shared.store.socket();
    let folder = path.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let uid = rustix::process::getuid().as_raw();
    let meta = fs::metadata(folder)?;
    if meta.uid() != uid {
        // They could put a socket of theirs in its place.
        let why = format!("{} belongs to another user; use another SHOAL_STORE", folder.display());
        return Err(io::Error::other(why));
    }
    if group.is_none() && meta.mode() & 0o077 != 0 {
        rustix::fs::chmod(folder, Mode::from_raw_mode(0o700))?;
    }
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let gid = group.map(group_id).transpose()?;
    let mode = if gid.is_some() { 0o660 } else { 0o600 };
    if let Some(gid) = gid {
        // They have to get through the folder, and see nothing else in it.
        rustix::fs::chown(folder, None, Some(Gid::from_raw(gid)))?;
        rustix::fs::chmod(folder, Mode::from_raw_mode(0o710))?;
        rustix::fs::chown(&path, None, Some(Gid::from_raw(gid)))?;
    }
    rustix::fs::chmod(&path, Mode::from_raw_mode(mode))?;
    let shared = shared.clone();
    let run = move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, most likely: others may close some.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let shared = shared.clone();
            if shared.clients.fetch_add(1, Ordering::AcqRel) >= MOST_CLIENTS {
                shared.clients.fetch_sub(1, Ordering::AcqRel);
                say_full(&stream);
                continue;
            }
            let count = Counted(shared.clone());
            let open = move || {
                let _count = count;
                match caller(&stream, gid) {
                    Ok(caller) => serve(&shared, &stream, caller),
                    Err(why) => shared.log.say(format!("somebody was not let in: {why}")),
                }
            };
            let _ = std::thread::Builder::new().name("client".into()).stack_size(512 << 10).spawn(open);
        }
    };
    std::thread::Builder::new().name("door".into()).stack_size(256 << 10).spawn(run)?;
    Ok(())
}

/// Whoever hears nothing takes it for no daemon, and starts one. Its first word is read before, or the end of the connection would throw away the
/// answer; it does not come from afar, so it is there at once.
fn say_full(stream: &UnixStream) {
    let limits = stream.set_read_timeout(Some(FULL)).and_then(|()| stream.set_write_timeout(Some(FULL)));
    let (mut from, mut to) = (stream, stream);
    if limits.is_ok() && framing::read_message::<Request>(&mut from).is_ok() {
        let why = format!("{MOST_CLIENTS} programs speak with the queue at the moment, and it takes no more");
        let answer = refused(why, "try again when some of them (`--wait`, `logs -f`, `top`) have ended");
        let _ = framing::write_message(&mut to, &answer, &[]);
    }
}

/// One connection of a client, for as long as it lives.
pub(super) struct Counted(pub Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The daemon's own user, and root, may do everything; members of the group that was named may submit.
fn caller(stream: &UnixStream, group: Option<u32>) -> Result<Caller, String> {
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|e| e.to_string())?;
    let uid = peer.uid.as_raw();
    let user = user_name(uid);
    if uid == rustix::process::getuid().as_raw() || uid == 0 {
        return Ok(Caller { user, role: Role::Admin, token: None });
    }
    let member =
        group.is_some_and(|gid| peer.gid.as_raw() == gid || groups_of(&user, peer.gid.as_raw()).contains(&gid));
    if member {
        Ok(Caller { user, role: Role::Submit, token: None })
    } else {
        Err(format!("{user} is not of the group"))
    }
}

/// Of the user database; one that is not in it goes by its number.
pub fn user_name(uid: u32) -> String {
    let mut buffer = vec![0; 16 << 10];
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the buffer is as long as it says, and the entry is read only if one was found.
    let name = unsafe {
        let failed = libc::getpwuid_r(uid, entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &mut found);
        (failed == 0 && !found.is_null()).then(|| CStr::from_ptr((*found).pw_name).to_string_lossy().into_owned())
    };
    name.unwrap_or_else(|| format!("uid{uid}"))
}

fn groups_of(user: &str, gid: u32) -> Vec<u32> {
    let Ok(user) = CString::new(user) else { return Vec::new() };
    let mut groups = vec![0; 1024];
    let mut count = groups.len() as i32;
    // SAFETY: `count` is how many fit.
    let done = unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
    groups.truncate(if done < 0 { 0 } else { count.max(0) as usize });
    groups
}

fn group_id(name: &str) -> io::Result<u32> {
    let wanted = CString::new(name).map_err(io::Error::other)?;
    let mut buffer = vec![0; 64 << 10];
    let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: as in `user_name`.
    let gid = unsafe {
        let (to, length) = (buffer.as_mut_ptr(), buffer.len());
        let failed = libc::getgrnam_r(wanted.as_ptr(), entry.as_mut_ptr(), to, length, &mut found);
        (failed == 0 && !found.is_null()).then(|| (*found).gr_gid)
    };
    gid.ok_or_else(|| io::Error::other(format!("there is no group `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(3_999_999_999), "uid3999999999");
        assert!(group_id("no such group").is_err());
        assert_eq!(group_id("root").unwrap(), 0);
        assert!(groups_of("root", 0).contains(&0));
    }
}
