use clap::Parser;

fn main() -> std::process::ExitCode {
    let args = shoal::args::ps_master::Args::parse();
    shoal::exit::report("ps_master", shoal::commands::ps_master::run(&args))
}
