fn main() -> std::process::ExitCode {
    shoal::programs::main()
}
