//! Every shared behaviour, by its id: which stories drive it. A new id without a story fails here.

use std::collections::BTreeSet;

use netguard::{FetchError, Policy, RedirectFault, Refusal};
use serde_json::Value;

use crate::support::{Answers, Servers, guard, ips};
use crate::{
    addresses, exceptions, hostile, limits, pages, proxies, rebinding, redirects, tls, vectors,
};

/// A story as the test runner calls it.
type Story = fn();

/// The stories of each behaviour.
const DRIVEN: &[(&str, &[Story])] = &[
    (
        "rebind-01",
        &[
            rebinding::a_name_is_resolved_once_and_what_was_judged_is_what_is_dialled,
            rebinding::each_hop_asks_anew_and_exactly_once,
        ],
    ),
    (
        "rebind-02",
        &[rebinding::a_thousand_fetches_from_a_fickle_resolver_never_reach_loopback],
    ),
    (
        "rebind-04",
        &[rebinding::after_a_failed_connection_only_the_other_judged_addresses_are_tried],
    ),
    (
        "rebind-06",
        &[
            addresses::this_machines_own_addresses_are_closed_also_public_ones,
            addresses::the_kernel_knows_this_machines_addresses,
            exceptions::the_server_that_uses_the_guard_is_out_of_its_reach,
        ],
    ),
    (
        "rebind-08",
        &[rebinding::a_resolver_that_fails_or_knows_nothing_refuses],
    ),
    (
        "redirect-01",
        &[redirects::a_redirect_to_a_closed_place_is_refused_before_anybody_is_dialled],
    ),
    (
        "redirect-05",
        &[redirects::a_redirect_to_a_closed_place_is_refused_before_anybody_is_dialled],
    ),
    (
        "redirect-06",
        &[tls::a_redirect_from_https_to_http_is_refused],
    ),
    (
        "redirect-08",
        &[redirects::a_redirect_to_a_closed_place_is_refused_before_anybody_is_dialled],
    ),
    ("redirect-10", &[redirects::a_loop_ends_at_the_limit]),
    (
        "redirect-12",
        &[
            redirects::a_location_that_cannot_be_read_is_a_typed_refusal,
            a_location_that_is_huge_or_broken_or_no_text_is_a_typed_error,
        ],
    ),
    (
        "redirect-14",
        &[redirects::after_303_and_after_301_or_302_of_a_post_comes_a_get_without_a_body],
    ),
    (
        "redirect-15",
        &[
            redirects::a_307_keeps_method_and_body_at_home_and_drops_everything_abroad,
            redirects::what_was_dropped_abroad_does_not_come_back_at_home,
        ],
    ),
    (
        "redirect-16",
        &[redirects::nothing_but_status_and_location_moves_on],
    ),
    (
        "redirect-18",
        &[tls::each_hop_proves_its_own_name_over_its_own_connection],
    ),
    (
        "redirect-19",
        &[redirects::nothing_but_status_and_location_moves_on],
    ),
    (
        "proxytls-02",
        &[
            proxies::names_ports_and_literal_addresses_are_judged_before_the_proxy_is_asked,
            proxies::https_goes_through_a_tunnel_to_the_name,
            proxies::without_a_proxy_the_server_itself_is_dialled,
        ],
    ),
    (
        "proxytls-03",
        &[a_name_that_this_machines_own_files_lead_home_is_refused],
    ),
    (
        "proxytls-05",
        &[
            tls::sni_host_and_certificate_are_about_the_name_while_the_judged_address_is_dialled,
            tls::a_certificate_for_another_name_or_from_a_stranger_fails_before_anything_is_sent,
        ],
    ),
    (
        "proxytls-06",
        &[tls::an_address_in_an_https_url_has_to_stand_in_the_certificate],
    ),
    (
        "response-01",
        &[hostile::a_decompression_bomb_stops_at_the_limit_and_costs_little_memory],
    ),
    (
        "response-02",
        &[hostile::several_or_unknown_encodings_are_refused],
    ),
    (
        "response-04",
        &[hostile::no_more_is_read_than_the_server_announced],
    ),
    (
        "response-05",
        &[hostile::a_body_without_end_is_cut_at_the_limit],
    ),
    (
        "response-08",
        &[limits::a_head_has_ten_seconds_also_when_it_dribbles_or_is_preceded_by_others],
    ),
    (
        "response-09",
        &[
            hostile::a_head_that_is_too_large_is_a_typed_error,
            hostile::a_head_without_end_is_a_typed_error_and_costs_little_memory,
        ],
    ),
    (
        "response-10",
        &[limits::a_head_has_ten_seconds_also_when_it_dribbles_or_is_preceded_by_others],
    ),
    (
        "response-12",
        &[
            pages::bytes_that_do_not_fit_are_replaced_and_it_is_said,
            pages::charsets_are_read_from_the_mark_the_server_the_page_and_the_bytes_in_this_order,
        ],
    ),
    ("response-15", &[limits::connecting_ends_after_ten_seconds]),
    (
        "response-16",
        &[hostile::a_body_that_breaks_off_is_an_error_that_says_how_much_came],
    ),
    (
        "response-18",
        &[limits::a_fetch_that_is_dropped_closes_at_once_in_every_phase_and_leaves_no_task],
    ),
    (
        "policy-01",
        &[vectors::no_refusal_tells_what_a_name_resolved_to],
    ),
    (
        "policy-02",
        &[a_refused_place_and_a_closed_port_of_it_cannot_be_told_apart],
    ),
    ("policy-03", &[exceptions::a_name_in_an_entry_matches_whole]),
    (
        "policy-04",
        &[
            exceptions::an_entry_opens_exactly_that_host_and_port,
            exceptions::a_redirect_out_of_an_entry_is_judged_like_any_other,
            exceptions::an_entry_ends_with_its_time,
            exceptions::an_entry_of_one_session_is_not_one_of_another,
            exceptions::nothing_opens_a_metadata_service,
        ],
    ),
    // Who may name what is shown where servers are connected to: `mcp/src/faults/http.rs`.
    (
        "policy-06",
        &[
            exceptions::an_entry_of_one_session_is_not_one_of_another,
            exceptions::nothing_opens_a_metadata_service,
        ],
    ),
];

/// Behaviours that wait for a part of the program that does not exist, and for which.
const WAITING: &[(&str, &str)] = &[];

fn ids() -> Vec<String> {
    let vectors = include_str!("../vectors/ssrf_behaviours.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let ids = vectors.iter().map(|vector| vector["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

#[test]
fn every_shared_behaviour_is_driven_and_as_it_says() {
    let mut wrong = Vec::new();
    for id in ids() {
        let stories = DRIVEN.iter().find(|(driven, _)| *driven == id);
        match stories {
            Some((_, stories)) => {
                let fails = |story: &&Story| std::panic::catch_unwind(**story).is_err();
                if stories.iter().any(|story| fails(&story)) {
                    wrong.push(format!("{id} is not as it says"));
                }
            }
            None if WAITING.iter().any(|(waiting, _)| *waiting == id) => {}
            None => wrong.push(format!("{id} is driven by nothing")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn no_story_stands_for_a_behaviour_that_is_not_there() {
    let ids: BTreeSet<_> = ids().into_iter().collect();
    let driven = DRIVEN.iter().map(|(id, stories)| {
        assert!(!stories.is_empty(), "{id}");
        *id
    });
    let named: Vec<_> = driven.chain(WAITING.iter().map(|(id, _)| *id)).collect();
    for id in &named {
        assert!(ids.contains(*id), "{id}");
    }
    let once: BTreeSet<_> = named.iter().collect();
    assert_eq!(once.len(), named.len(), "one of them stands there twice");
}

#[tokio::test]
async fn a_location_that_is_huge_or_broken_or_no_text_is_a_typed_error() {
    let redirect = |location: &[u8]| {
        let mut answer = b"HTTP/1.1 302 Found\r\nlocation: ".to_vec();
        answer.extend_from_slice(location);
        answer.extend_from_slice(b"\r\ncontent-length: 0\r\n\r\n");
        answer
    };
    let refused = hostile::get(redirect(&[b'a'; 1 << 20])).await.unwrap_err();
    assert!(matches!(refused, FetchError::HeadTooLarge), "{refused:?}");
    let no_text = hostile::get(redirect(b"/\xff\xfe\x80")).await.unwrap_err();
    let fault = Refusal::Redirect(RedirectFault::Location);
    assert_eq!(no_text.refusal(), Some(fault), "{no_text:?}");
    // What follows the line break is another field, and one that means nothing.
    let two_lines = hostile::get(redirect(b"/a\r\nlocation: http://127.0.0.1/")).await;
    assert_eq!(two_lines.unwrap_err().refusal(), Some(fault));
}

#[tokio::test]
async fn a_name_that_this_machines_own_files_lead_home_is_refused() {
    for home in ["127.0.0.1", "127.0.1.1", "::1", "fe80::1"] {
        let servers = Servers::saying("never");
        let files = Answers::new(move |_, _| Ok(ips(&[home])));
        let guard = guard(Policy::default(), files, servers.clone());
        let refused = guard.get("http://evil.example/").await.unwrap_err();
        let refusal = refused.refusal();
        assert!(matches!(refusal, Some(Refusal::Answer(_))), "{refused}");
        assert!(servers.dialled().is_empty(), "{home}");
    }
}

#[tokio::test]
async fn a_refused_place_and_a_closed_port_of_it_cannot_be_told_apart() {
    let mut said = BTreeSet::new();
    for is_listening in [true, false] {
        let servers = Servers::new(move |_, _| match is_listening {
            true => Ok("HTTP/1.1 200 OK\r\n\r\n".to_owned()),
            false => Err(std::io::ErrorKind::ConnectionRefused.into()),
        });
        let home = Answers::new(|_, _| Ok(ips(&["10.0.0.7"])));
        let guard = guard(Policy::default(), home, servers.clone());
        for url in ["http://home.example/", "http://home.example:8080/"] {
            let refused = guard.get(url).await.unwrap_err();
            said.insert(format!("{refused} {refused:?}"));
        }
        assert!(servers.dialled().is_empty(), "the dialer was asked");
    }
    assert_eq!(said.len(), 1, "{said:?}");
}
