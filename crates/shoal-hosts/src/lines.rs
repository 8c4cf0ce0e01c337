//! What a program elsewhere says, read by a thread of its own, so that whoever waits for it can wait with a bound.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::sync::mpsc::{Receiver, sync_channel};

/// Lines that may wait to be heard; a program that says more waits.
const WAITING: usize = 1024;

/// The lines that `read` makes something of; what is not ours, such as what a login prints, is for it to leave out. No line of ours is longer than `longest`:
/// what is comes in pieces. The receiver finds the other end gone when the program's output ends.
pub fn lines<T: Send + 'static>(
    from: PipeReader,
    longest: u64,
    read: impl Fn(&[u8]) -> Option<T> + Send + 'static,
) -> Receiver<T> {
    let (send, receive) = sync_channel(WAITING);
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            match from.by_ref().take(longest).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if let Some(said) = read(&line)
                && send.send(said).is_err()
            {
                return;
            }
        }
    });
    receive
}

/// All of a program's complaints once it has ended, at most so many bytes of them; they are read as they come, so that it never waits for that.
pub fn complaints(mut errors: PipeReader, most: u64) -> Receiver<String> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.by_ref().take(most).read_to_end(&mut text);
        let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        let _ = std::io::copy(&mut errors, &mut std::io::sink());
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_ours_is_heard_and_nothing_blocks_the_program() {
        let (from, mut to) = std::io::pipe().expect("a pipe");
        let heard = lines(from, 8, |line| String::from_utf8(line.to_vec()).ok().filter(|line| line.starts_with('@')));
        to.write_all(b"hello\n@one\n\xff@\n@too long for one\n@last").expect("a pipe");
        drop(to);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["@one\n", "@too lon", "@last"]);

        let (errors, mut to) = std::io::pipe().expect("a pipe");
        let said = complaints(errors, 4);
        to.write_all(&vec![b'x'; 1 << 20]).expect("a pipe that somebody reads");
        drop(to);
        assert_eq!(said.recv().as_deref(), Ok("xxxx"));
    }
}
