//! Fetches the URL that is its argument through the guard and prints what it says:
//! `cargo run --example fetch -- https://example.com/`.

use std::io::Write;

use netguard::page::Page;
use netguard::{Guard, Policy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("which URL?")?;
    let guard = Guard::new(Policy::default())?;
    let response = guard.get(&url).await?;
    let page = Page::read(&response);
    let mut out = std::io::stdout();
    writeln!(out, "{} {}\n", page.status, page.url)?;
    writeln!(out, "{}", page.text)?;
    Ok(())
}
