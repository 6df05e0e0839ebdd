//! Runs the generator alone: `cargo run -p xtask --example generate [-- --check]`.

#[path = "../src/generate/mod.rs"]
mod generate;

fn main() -> anyhow::Result<()> {
    generate::run(std::env::args().any(|argument| argument == "--check"))
}
