//! What may a role ask? Whose sweep it is, is for the queue to say.

use shoal_core::queue::event::Pausable;
use shoal_core::queue::request::{Request, Role};

/// Whether it changes what is in the journal.
pub fn changes(request: &Request) -> bool {
    match request {
        Request::Submit { .. }
        | Request::Stop { .. }
        | Request::Retry { .. }
        | Request::Forget { .. }
        | Request::Pause { .. }
        | Request::Resume { .. }
        | Request::Drain { .. }
        | Request::AddHosts { .. }
        | Request::RemoveHost { .. } => true,
        Request::Shutdown { stop_runs } => *stop_runs,
        Request::Hello { .. }
        | Request::Lacks { .. }
        | Request::Tree { .. }
        | Request::Sweeps { .. }
        | Request::Runs { .. }
        | Request::Logs { .. }
        | Request::Wait { .. }
        | Request::Why { .. }
        | Request::Results { .. }
        | Request::Hosts
        | Request::AddToken { .. }
        | Request::RemoveToken { .. }
        | Request::Tokens => false,
    }
}

pub fn may(role: Role, request: &Request) -> bool {
    let least = match request {
        Request::Hello { .. }
        | Request::Sweeps { .. }
        | Request::Runs { .. }
        | Request::Logs { .. }
        | Request::Wait { .. }
        | Request::Why { .. }
        | Request::Results { .. }
        | Request::Hosts => Role::Read,
        Request::Submit { .. }
        | Request::Lacks { .. }
        | Request::Tree { .. }
        | Request::Stop { .. }
        | Request::Retry { .. }
        | Request::Forget { .. }
        | Request::Pause { what: Pausable::Sweep(_) }
        | Request::Resume { what: Pausable::Sweep(_) } => Role::Submit,
        Request::Pause { what: Pausable::Host(_) }
        | Request::Resume { what: Pausable::Host(_) }
        | Request::Drain { .. }
        | Request::AddHosts { .. }
        | Request::RemoveHost { .. }
        | Request::AddToken { .. }
        | Request::RemoveToken { .. }
        | Request::Tokens
        | Request::Shutdown { .. } => Role::Admin,
    };
    match role {
        Role::Admin => true,
        Role::Submit => least != Role::Admin,
        Role::Read => least == Role::Read,
        // An agent asks nothing; it has a line.
        Role::Host => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::Target;

    #[test]
    fn each_role_may_what_it_says() {
        let target = || Target::Sweep("mlp".into());
        let table = [
            (Request::Sweeps { all: true }, [true, true, false, true]),
            (Request::Why { target: target() }, [true, true, false, true]),
            (Request::Stop { target: target(), now: false, grace_seconds: None }, [false, true, false, true]),
            (Request::Lacks { digests: vec![] }, [false, true, false, true]),
            (Request::Pause { what: Pausable::Sweep("mlp".into()) }, [false, true, false, true]),
            (Request::Pause { what: Pausable::Host("a".into()) }, [false, false, false, true]),
            (Request::Tokens, [false, false, false, true]),
            (Request::Shutdown { stop_runs: false }, [false, false, false, true]),
        ];
        for (request, expected) in table {
            let found = [Role::Read, Role::Submit, Role::Host, Role::Admin].map(|role| may(role, &request));
            assert_eq!(found, expected, "{request:?}");
        }
    }
}
