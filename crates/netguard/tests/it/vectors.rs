//! Every shared vector: which URLs are open and which are closed, and for which kind of reason.

use netguard::{FixedResolver, Guard, Policy, Refusal};
use serde_json::Value;

use crate::support::{NoOwn, Servers, public};

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../vectors/ssrf.json")).unwrap()
}

/// What the guard says of a vector. A name that the vector gives no answer for resolves to a
/// public address, so that nothing is refused merely because it is unknown.
async fn verdict(vector: &Value) -> Result<(), Refusal> {
    let mut resolver = FixedResolver::before(std::sync::Arc::new(public()));
    if let Some(answers) = vector["resolves_to"].as_array() {
        let answers = answers
            .iter()
            .map(|ip| ip.as_str().unwrap().parse().unwrap());
        let host = vector["whatwg_host"].as_str().unwrap_or_default();
        resolver = resolver.answer(host, answers.collect());
    }
    let guard = Guard::builder(Policy::default())
        .resolver(resolver)
        .dialer(Servers::saying("never dialled"))
        .own_addresses(NoOwn)
        .build()
        .unwrap();
    let url = vector["url"].as_str().unwrap();
    guard.check(url).await.map(|_| ())
}

#[tokio::test]
async fn every_shared_vector_is_judged_as_it_says() {
    let mut wrong = Vec::new();
    for vector in vectors() {
        let verdict = verdict(&vector).await;
        let is_open = vector["expect"] == "allow";
        if verdict.is_ok() != is_open {
            wrong.push(format!("{}: {verdict:?}, but {vector}", vector["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(vectors().len() > 150, "the vectors are there");
}

#[tokio::test]
async fn a_vector_is_refused_by_the_rule_that_it_is_about() {
    for vector in vectors()
        .iter()
        .filter(|vector| vector["expect"] == "block")
    {
        let refusal = verdict(vector).await.unwrap_err();
        let fits = match vector["cat"].as_str().unwrap() {
            "v4lit" | "v4form" | "v6lit" => matches!(refusal, Refusal::Address(_)),
            "v4bad" | "v6bad" | "scheme" => matches!(refusal, Refusal::Url(_) | Refusal::Name(_)),
            "name" => matches!(refusal, Refusal::Name(_)),
            "dns" => matches!(refusal, Refusal::Answer(_) | Refusal::Resolution(_)),
            "port" => matches!(refusal, Refusal::Port(_) | Refusal::Url(_)),
            "auth" => !matches!(refusal, Refusal::Port(_) | Refusal::Answer(_)),
            other => panic!("a new kind of vector: {other}"),
        };
        assert!(fits, "{vector}: {refusal:?}");
    }
}

#[tokio::test]
pub(crate) async fn no_refusal_tells_what_a_name_resolved_to() {
    for vector in vectors() {
        let Err(refusal) = verdict(&vector).await else {
            continue;
        };
        let said = format!("{refusal} {refusal:?}");
        for answer in vector["resolves_to"].as_array().into_iter().flatten() {
            assert!(!said.contains(answer.as_str().unwrap()), "{said}");
        }
    }
    let example = Refusal::Answer(netguard::Network::Private).to_string();
    assert_eq!(example, "blocked hostname: resolves to a private network");
}
