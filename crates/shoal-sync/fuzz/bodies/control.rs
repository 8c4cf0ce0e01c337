//! The words of master and nodes, given to a table as a proven peer may: no panic, no message over the limit, and a
//! message that was understood is the same when it is written and read again.

use shoal_sync::control::{self, FromMaster, ToMaster};
use shoal_sync::master::table::Table;

pub fn run(data: &[u8]) {
    let mut rest = data;
    let mut table = Table::new(1, Some(2), 1);
    for link in 0..8 {
        let Ok(message) = control::receive::<ToMaster>(&mut rest) else { break };
        let mut bytes = Vec::new();
        if control::send(&mut bytes, &message).is_ok() {
            assert_eq!(control::receive::<ToMaster>(&mut bytes.as_slice()).ok(), Some(message.clone()));
        }
        let effects = match message {
            ToMaster::Register(node) => table.register(link, node, "10.0.0.1"),
            ToMaster::Finish => table.finish(link),
            ToMaster::AtTheDoor => table.at_the_door(link / 2),
            ToMaster::Admitted { node, incarnation } => table.admitted(node, incarnation),
            ToMaster::Abort { error } => table.abort(link, error),
            ToMaster::Blocked { key, missing } => table.blocked(link / 2, key, missing, 100 * link),
            ToMaster::Moving => table.lost(link / 2, "moved away"),
            ToMaster::Status => Vec::new(),
        };
        assert!(effects.len() <= 16, "{effects:?}");
        assert!(table.workers.len() <= 2 && table.servers.len() <= 1);
    }
    drop(control::receive::<FromMaster>(&mut &data[..]));
}
