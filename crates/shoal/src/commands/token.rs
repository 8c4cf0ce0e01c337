//! Says who may use the queue from elsewhere.

use super::run::NotBegun;
use crate::args::token::{Args, Role, Verb};
use crate::exit::Exit;
use crate::queue::connect::{self, Queue, Start};
use crate::queue::table::{self, left};
use crate::queue::times;
use serde_json::json;
use shoal_core::queue::request::{self, Answer, Request};
use shoal_daemon::queue::client::PORT;
use shoal_daemon::queue::door::tls;
use shoal_daemon::queue::serve::holder;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    match &args.verb {
        Verb::Add { user, role, days, json } => {
            let request = Request::AddToken { user: user.clone(), role: (*role).into(), days: *days };
            match queue.ask(&request)? {
                Answer::Token { user, token } if *json => {
                    crate::say::line(json!({ "user": user, "token": token, "queue": address(&queue) }));
                }
                Answer::Token { user, token } => {
                    crate::say::line(token);
                    eprintln!("{}", recipe(&user, *role, address(&queue)));
                }
                other => return Err(queue.odd(&request, &other)),
            }
        }
        Verb::Remove { user } => {
            queue.done(&Request::RemoveToken { user: user.clone() })?;
            eprintln!("shoal token: {user} has none any more");
        }
        Verb::List { json } => {
            let users = match queue.ask(&Request::Tokens)? {
                Answer::Tokens { users } => users,
                other => return Err(queue.odd(&Request::Tokens, &other)),
            };
            if *json {
                let rows =
                    users.iter().map(|(user, role, until)| json!({ "user": user, "role": role, "until": until }));
                crate::say::line(json!({ "tokens": rows.collect::<Vec<_>>() }));
            } else {
                let now = times::now();
                let until = |at: &Option<u64>| match at {
                    Some(at) if *at <= now => "expired".to_string(),
                    Some(at) => times::clock(*at, now),
                    None => "for ever".into(),
                };
                let rows = users.iter().map(|(user, role, at)| vec![user.clone(), word(*role).into(), until(at)]);
                let columns = [left("USER", 0, 64), left("ROLE", 0, 20), left("UNTIL", 0, 30)];
                crate::say::out(table::render(&columns, &rows.collect::<Vec<_>>(), table::width()));
            }
        }
    }
    Ok(Exit::Success.into())
}

/// How others name this queue, if it is this machine's and has ever listened.
fn address(queue: &Queue) -> Option<String> {
    let store = connect::usual_store().ok().filter(|_| queue.is_local())?;
    let fingerprint = tls::fingerprint(&store)?;
    let said = holder(&store).map(|holder| holder.listens).unwrap_or_default();
    let port = said.first().and_then(|first| first.rsplit(':').next()?.parse().ok()).unwrap_or(PORT);
    Some(format!("shoal://{}:{port}#{fingerprint}", shoal_sync::host::name()))
}

/// What to do with a token.
fn recipe(user: &str, role: Role, address: Option<String>) -> String {
    let queue = address.unwrap_or_else(|| "shoal://HOST:PORT#FINGERPRINT".into());
    let missing = match queue.contains("FINGERPRINT") {
        true => "\n  `shoal serve --listen 0.0.0.0:7420` says all of it in its first lines",
        false => "",
    };
    let place = match role {
        Role::Host => format!(
            "on {user}, `shoal serve --unit --agent '{queue}'` prints a unit that uses it, and says where it belongs"
        ),
        _ => format!(
            "{user} puts it into ~/.config/shoal/queue.json, for nobody else to read:\n  {{\"queue\": \"{queue}\", \"token\": \"...\"}}"
        ),
    };
    format!("shoal token: this is {user}'s token, shown only now; whoever has it is {user}\n  {place}{missing}")
}

fn word(role: request::Role) -> &'static str {
    match role {
        request::Role::Read => "read",
        request::Role::Submit => "submit",
        request::Role::Host => "host",
        request::Role::Admin => "admin",
    }
}

impl From<Role> for request::Role {
    fn from(role: Role) -> request::Role {
        match role {
            Role::Read => request::Role::Read,
            Role::Submit => request::Role::Submit,
            Role::Host => request::Role::Host,
            Role::Admin => request::Role::Admin,
        }
    }
}
