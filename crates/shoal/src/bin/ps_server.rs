use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = shoal::args::ps_server::Args::parse();
    shoal::exit::report("ps_server", shoal::commands::ps_server::run(&args))
}
