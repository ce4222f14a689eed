//! Which test tells which case of the file; a case may take several.

/// Which test tells which case.
pub(super) const STORIES: &[(&str, &str)] = &[
    (
        "ok-01",
        "a_first_message_opens_a_connection_and_delete_ends_it",
    ),
    (
        "ok-02",
        "the_right_token_opens_however_its_scheme_is_written",
    ),
    ("ok-05", "health_tells_that_it_runs_and_nothing_else"),
    (
        "token-01",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-02",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-03",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-04",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    (
        "token-06",
        "the_right_token_opens_however_its_scheme_is_written",
    ),
    (
        "token-10",
        "nothing_but_the_right_token_in_the_right_place_opens",
    ),
    ("token-12", "a_token_that_was_replaced_opens_nothing"),
    ("token-13", "a_01_another_principal_finds_nothing_of_yours"),
    ("token-14", "a_23_every_route_and_method_wants_the_token"),
    ("token-14", "wrong_tokens_open_no_route_by_any_method"),
    (
        "token-17",
        "the_token_is_never_readable_by_others_not_even_briefly",
    ),
    ("host-02", "foreign_hosts_are_refused_on_every_method"),
    ("host-03", "foreign_hosts_are_refused_on_every_method"),
    ("host-04", "foreign_hosts_are_refused_on_every_method"),
    ("host-08", "foreign_hosts_are_refused_on_every_method"),
    ("host-09", "foreign_hosts_are_refused_on_every_method"),
    ("host-10", "foreign_hosts_are_refused_on_every_method"),
    (
        "host-12",
        "a_foreign_authority_is_refused_on_http_2_as_well",
    ),
    (
        "host-13",
        "a_foreign_authority_is_refused_on_http_2_as_well",
    ),
    ("host-14", "foreign_hosts_are_refused_on_every_method"),
    ("host-16", "foreign_hosts_are_refused_on_every_method"),
    ("origin-02", "foreign_origins_are_refused_on_every_method"),
    ("origin-03", "foreign_origins_are_refused_on_every_method"),
    (
        "origin-04",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    ("origin-05", "foreign_origins_are_refused_on_every_method"),
    ("origin-09", "foreign_origins_are_refused_on_every_method"),
    ("origin-10", "foreign_origins_are_refused_on_every_method"),
    (
        "origin-11",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    (
        "cors-02",
        "a_page_may_call_only_from_our_own_or_an_allowed_origin",
    ),
    (
        "cors-02",
        "an_allowed_page_gets_its_headers_with_every_answer_and_no_others",
    ),
    ("cors-03", "what_a_page_may_send_unasked_is_refused_twice"),
    ("cors-04", "what_a_page_may_send_unasked_is_refused_twice"),
    ("cors-05", "what_a_page_may_send_unasked_is_refused_twice"),
    ("cors-07", "foreign_origins_are_refused_on_every_method"),
    (
        "bind-03",
        "an_open_address_without_tls_is_refused_at_the_start",
    ),
    ("bind-04", "the_socket_is_private_announced_and_removed"),
    (
        "bind-04",
        "another_user_is_refused_even_if_the_files_let_him_through",
    ),
    ("bind-04", "a_socket_that_a_dead_server_left_is_replaced"),
    (
        "bind-04",
        "a_socket_in_use_stops_the_second_server_which_says_who_has_it",
    ),
    ("bind-04", "what_is_no_socket_of_ours_is_left_alone"),
    ("bind-04", "a_directory_that_others_can_enter_is_refused"),
    ("owner-02", "a_01_another_principal_finds_nothing_of_yours"),
    (
        "owner-02",
        "a_01_another_principal_finds_nothing_of_yours_over_http_either",
    ),
    ("owner-03", "a_cancel_from_somebody_else_changes_nothing"),
    (
        "owner-04",
        "an_answer_to_another_clients_question_does_nothing",
    ),
    (
        "owner-05",
        "another_principal_cannot_read_post_to_or_end_a_connection",
    ),
    (
        "owner-06",
        "another_principal_cannot_read_post_to_or_end_a_connection",
    ),
    ("owner-07", "a_01_another_principal_finds_nothing_of_yours"),
    (
        "owner-08",
        "a_session_survives_its_owners_disconnect_with_all_its_history",
    ),
    ("owner-12", "what_a_client_claims_to_be_is_ignored"),
];
