//! Reads a page of HTML from standard input and prints it as Markdown:
//! `cargo run --example markdown -- https://example.com/ < page.html`.

use std::io::{Read, Write};

use netguard::page::Page;
use netguard::{End, Response};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let url = url.as_deref().unwrap_or("https://example.com/");
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", "text/html".parse()?);
    let page = Page::read(&Response {
        status: http::StatusCode::OK,
        url: url::Url::parse(url)?,
        headers,
        body: body.into(),
        end: End::Whole,
        redirects: Vec::new(),
    });
    let mut out = std::io::stdout();
    writeln!(out, "{}", page.text)?;
    Ok(())
}
