//! What does an error of a drive mean for what was to be put there? One rule for all who put results and files somewhere.

use std::error::Error;
use std::io::{self, ErrorKind};

/// The kernel's code, also of an error that was wrapped on its way.
fn code(e: &io::Error) -> Option<i32> {
    let mut at: Option<&(dyn Error + 'static)> = Some(e);
    while let Some(error) = at {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            if let Some(code) = io.raw_os_error() {
                return Some(code);
            }
            // What it holds, and not what that comes from.
            at = io.get_ref().map(|inner| inner as &(dyn Error + 'static));
            continue;
        }
        at = error.source();
    }
    None
}

/// There is no room.
pub fn is_full(e: &io::Error) -> bool {
    matches!(code(e), Some(libc::ENOSPC | libc::EDQUOT)) || e.kind() == ErrorKind::StorageFull
}

/// Somebody has to allow it first.
pub fn is_forbidden(e: &io::Error) -> bool {
    matches!(code(e), Some(libc::EACCES | libc::EPERM | libc::EROFS))
}

/// It will be no other the next time: the place is impossible, or what was to be put there is. Everything else is a drive that is full, away,
/// broken or forbidden, and may be mended.
pub fn is_for_ever(e: &io::Error) -> bool {
    match code(e) {
        Some(code) => matches!(code, libc::ENOTDIR | libc::ENAMETOOLONG | libc::EINVAL | libc::ELOOP),
        // Words of our own, and of those who read archives.
        None => !matches!(e.kind(), ErrorKind::WriteZero | ErrorKind::Interrupted | ErrorKind::TimedOut) && !is_full(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As archives wrap them.
    #[derive(Debug)]
    struct Wrapped(io::Error);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("failed to unpack")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn what_may_be_mended_is_waited_for() {
        for (os, full, forbidden, for_ever) in [
            (libc::ENOSPC, true, false, false),
            (libc::EDQUOT, true, false, false),
            (libc::ESTALE, false, false, false),
            (libc::EIO, false, false, false),
            (libc::EROFS, false, true, false),
            (libc::EACCES, false, true, false),
            (libc::ENOENT, false, false, false),
            (libc::ENOTDIR, false, false, true),
            (libc::ENAMETOOLONG, false, false, true),
        ] {
            let plain = io::Error::from_raw_os_error(os);
            let wrapped = io::Error::new(plain.kind(), Wrapped(io::Error::from_raw_os_error(os)));
            for e in [plain, wrapped] {
                assert_eq!((is_full(&e), is_forbidden(&e), is_for_ever(&e)), (full, forbidden, for_ever), "{e:?}");
            }
        }
        assert!(is_for_ever(&io::Error::other("it is of another configuration")));
        assert!(is_for_ever(&ErrorKind::InvalidInput.into()) && !is_for_ever(&ErrorKind::WriteZero.into()));
    }
}
