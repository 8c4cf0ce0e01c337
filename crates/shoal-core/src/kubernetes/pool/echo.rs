//! How does what a pod's program prints get to the pod's own log, too, for `kubectl logs`? It goes to a file on the volume, which is what counts;
//! a second process of the pod passes on what is new there. So a log that nobody empties holds up nothing, and no word is lost with a pipe.

use super::NOT_BEGUN;

/// Fails where nothing can be written: the volume is full, or not the queue's user's. Asked beforehand, since a shell ends at once, with a code of its
/// own, where `exec` cannot open a file: that would look like the program's.
fn writable(out: &str) -> String {
    format!("{{ echo >{out}.try && rm -f {out}.try && ( : >>{out} ); }} 2>/dev/null || exit {NOT_BEGUN}\n")
}

/// From here on everything is written to `out` (quoted). Descriptor 3 is the pod's log, 4 reads what was written: its place in the file is one for
/// all who read by it, so nothing is passed on twice.
pub fn beginning(out: &str) -> String {
    let writable = writable(out);
    format!(
        "{writable}exec 3>&1 >>{out} 2>&1 4<{out} || exit {NOT_BEGUN}
(
  trap 'exit 0' TERM
  while :; do
    cat <&4 >&3
    sleep 2 3>&- 4<&- &
    wait $!
  done
) 2>/dev/null &
echoes=$!
"
    )
}

/// For what runs in between: it knows nothing of that.
pub const ALONE: &str = "3>&- 4<&-";

/// The rest, when everything that counts is written down.
pub const END: &str = "  kill \"$echoes\" 2>/dev/null && wait \"$echoes\" 2>/dev/null\n  cat <&4 >&3 2>/dev/null\n";
