//! The host side as a program of its own, for tests and measurements: `warden`, `keeper`, `list`, `tail`, `stop`.

use shoal_daemon::{keeper, records, warden};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let arg = |k: usize| rest.get(k).map_or("", String::as_str);
    match verb.as_str() {
        "warden" => return warden::main(rest, &["host", "keeper"]),
        "host" if arg(0) == "keeper" => return keeper::main(),
        "list" => {
            for run in records::list(&records::root()) {
                for rank in &run.ranks {
                    println!("{} {} {} {:?}", run.run, run.host, rank.rank, rank.state());
                }
            }
        }
        "tail" => {
            let Ok(rank) = arg(1).parse() else { return ExitCode::from(2) };
            if let Err(e) = records::tail(&records::root(), arg(0), rank, 0, true, &mut std::io::stdout()) {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
        "stop" => match records::stop(&records::root(), arg(0), arg(1).parse().ok(), Duration::from_secs(5)) {
            Ok(stopped) => stopped.iter().for_each(|s| println!("{} {:?}", s.rank, s.state)),
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        },
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}
