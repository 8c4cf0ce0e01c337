//! How is a run's process made, as cheaply as can be?
//!
//! By `posix_spawn`: the child borrows our memory until it executes the program, so nothing is copied however much we hold, and no code
//! of ours runs in it. It gets a session of its own, so its pid is also the number of its group.

use super::guard::{GUARD_PROGRAM, GUARD_WORDS};
use super::words::Run;
use std::collections::HashSet;
use std::ffi::{CString, NulError, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Where a wrapper says how far it is.
const PROGRESS_FD: c_int = crate::keeper::prepare::PROGRESS_FD;

/// What is the same for every run.
pub struct Launcher {
    attributes: Box<libc::posix_spawnattr_t>,
}

/// An environment that many runs share, as the kernel wants it.
#[derive(Default)]
pub struct Environment(Vec<(usize, CString)>);

impl Environment {
    pub fn new(variables: &[(String, String)]) -> Result<Environment, NulError> {
        let one = |(name, value): &(String, String)| Ok((name.len(), CString::new(format!("{name}={value}"))?));
        variables.iter().map(one).collect::<Result<_, _>>().map(Environment)
    }
}

/// A run in the form in which it is executed.
pub struct Words {
    program: CString,
    argv: Vec<CString>,
    env: Vec<(usize, CString)>,
    cwd: CString,
}

impl Words {
    /// `mark`: of the keeper. With the run's name behind it, it is handed down to whatever the run starts.
    pub fn new(run: &Run, mark: &str) -> Result<Words, NulError> {
        let word = |word: &String| CString::new(word.as_bytes());
        let (program, before) = match run.guarded {
            true => (GUARD_PROGRAM, [&GUARD_WORDS[..], &[&run.program]].concat()),
            false => (run.program.as_str(), Vec::new()),
        };
        let before = before.into_iter().map(CString::new);
        let argv = before.chain(run.argv.iter().map(word)).collect::<Result<_, _>>()?;
        let mut env = Environment::new(&run.env)?.0;
        env.push((MARK.len(), CString::new(format!("{MARK}={mark}/{}", run.name))?));
        Ok(Words { program: CString::new(program)?, argv, env, cwd: CString::new(run.cwd.as_bytes())? })
    }
}

/// The descriptors it finds.
pub struct Ends<'a> {
    pub stdin: BorrowedFd<'a>,
    pub output: BorrowedFd<'a>,
    pub progress: Option<BorrowedFd<'a>>,
}

fn name(one: &(usize, CString)) -> &[u8] {
    &one.1.as_bytes()[..one.0]
}

fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// A list of what is done in the child, destroyed when it goes out of scope.
struct Actions(Box<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut actions = Box::new(MaybeUninit::uninit());
        // SAFETY: a place for what is initialised here.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised by the line above.
        Ok(Actions(unsafe { actions.assume_init() }))
    }

    fn dup2(&mut self, from: BorrowedFd, to: c_int) -> io::Result<()> {
        // SAFETY: an initialised list and two numbers.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut *self.0, from.as_raw_fd(), to) })
    }

    fn chdir(&mut self, folder: &CString) -> io::Result<()> {
        // SAFETY: an initialised list, and a string that ends in zero, which is copied.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut *self.0, folder.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut *self.0) };
    }
}

impl Launcher {
    pub fn new() -> io::Result<Launcher> {
        let mut attributes = Box::new(MaybeUninit::uninit());
        let mut signals = MaybeUninit::uninit();
        let mut ours = MaybeUninit::uninit();
        let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | c_int::from(libc::POSIX_SPAWN_SETSID);
        // SAFETY: places for what is initialised here; each is used only after it is.
        unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), signals.as_ptr()))?;
            libc::sigfillset(ours.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), ours.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags as _))?;
            Ok(Launcher { attributes: attributes.assume_init() })
        }
    }

    /// Starts it; its pid.
    pub fn launch(&self, words: &Words, shared: &Environment, ends: &Ends) -> io::Result<u32> {
        let mut actions = Actions::new()?;
        actions.dup2(ends.stdin, 0)?;
        actions.dup2(ends.output, 1)?;
        actions.dup2(ends.output, 2)?;
        if let Some(progress) = ends.progress {
            actions.dup2(progress, PROGRESS_FD)?;
        }
        actions.chdir(&words.cwd)?;
        let own: HashSet<&[u8]> = words.env.iter().map(name).collect();
        let shared = shared.0.iter().filter(|one| !own.contains(name(one)));
        let mut env: Vec<*mut c_char> = words.env.iter().chain(shared).map(|one| one.1.as_ptr().cast_mut()).collect();
        env.push(ptr::null_mut());
        let mut argv: Vec<*mut c_char> = words.argv.iter().map(|word| word.as_ptr().cast_mut()).collect();
        argv.push(ptr::null_mut());
        let mut pid = 0;
        // SAFETY: initialised attributes and actions; lists of strings that end in zero, themselves ended by a null pointer, none of
        // which is written to.
        let code = unsafe {
            libc::posix_spawn(
                &mut pid,
                words.program.as_ptr(),
                &*actions.0,
                &*self.attributes,
                argv.as_ptr(),
                env.as_ptr(),
            )
        };
        check(code)?;
        Ok(pid as u32)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&mut *self.attributes) };
    }
}

/// The variable that tells our processes from all others, also when everybody they descend from is gone.
pub const MARK: &str = "SHOAL_KEPT";
