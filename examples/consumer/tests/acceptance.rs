fn main() -> std::process::ExitCode {
    relayproof::main("specs")
}
