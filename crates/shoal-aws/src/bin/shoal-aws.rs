//! `shoal-aws`: started by `shoal`, not by people.

fn main() -> std::process::ExitCode {
    shoal_aws::serve::main()
}
