//! The server as a program: `fake-model [PORT]` prints its port and serves until it is killed
//! or its standard input ends.
//!
//! Not here: everything it does (see the library). The language of prompts is in the library's `script`.

#![forbid(unsafe_code)]

use std::io::{Read, Write};

use fake_model::FakeModel;

fn main() -> std::io::Result<()> {
    let port = match std::env::args().nth(1).map(|port| port.parse()) {
        None => 0,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            eprintln!("usage: fake-model [PORT]");
            std::process::exit(2);
        }
    };
    let model = FakeModel::start_at(port)?;
    println!("{}", model.port());
    std::io::stdout().flush()?;
    // The process that started the server holds its standard input: no server outlives its test.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
