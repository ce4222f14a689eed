//! Judges URLs without connecting to anything: `cargo run --example judge -- http://127.1/ …`.
//! Shows how a resolver of one's own is put in.

use std::io::Write;
use std::sync::Arc;

use netguard::{FixedResolver, Guard, Policy, SystemResolver};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let resolver = FixedResolver::before(Arc::new(SystemResolver::default()))
        .answer("rebind.example", vec!["10.0.0.1".parse()?]);
    let guard = Guard::builder(Policy::default())
        .resolver(resolver)
        .build()?;
    let mut out = std::io::stdout();
    for url in std::env::args().skip(1) {
        match guard.check(&url).await {
            Ok(_) => writeln!(out, "allowed  {url}")?,
            Err(refusal) => writeln!(out, "{refusal}  {url}")?,
        }
    }
    Ok(())
}
