//! What one client may take, and what happens beyond it.

use serde_json::json;
use testkit::AcpClient;
use testkit::script::{Script, stream};

use crate::support::{echo, serve_with};

#[tokio::test]
async fn a_18_an_idle_connection_is_closed_politely_and_one_in_use_stays() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_IDLE_MS", "1000")]).await;
    let mut user = AcpClient::connect_ws(&server).await;
    let session = user.new_session().await;
    let mut idle = AcpClient::connect_ws(&server).await;
    assert_eq!(idle.closed().await, Some(4408));
    assert_eq!(
        user.prompt(&session, "still here").await.text,
        "you said still here"
    );
}

#[tokio::test]
async fn b_11_the_idle_clock_stops_while_a_turn_runs() {
    let script = Script::new().call([stream("x", 150, 10)]);
    let server = serve_with(script, &[("FASTNESS_LIMITS_IDLE_MS", "1000")]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text.len(), 150);
}

#[tokio::test]
async fn a_19_a_flood_is_refused_with_the_time_to_wait_and_neighbours_are_served() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_REQUESTS_PER_SECOND", "5")]).await;
    let mut flooder = AcpClient::connect_ws(&server).await;
    let mut neighbour = AcpClient::connect_ws(&server).await;
    let session = neighbour.new_session().await;
    let mut requests = Vec::new();
    for _ in 0..40 {
        requests.push(flooder.start("session/list", json!({})).await);
    }
    let mut refused = 0;
    for request in &requests {
        if let Err(error) = flooder.wait(request).await {
            assert_eq!(error.code, -32011);
            assert!(error.data["retryAfterMs"].as_u64() > Some(0));
            refused += 1;
        }
    }
    assert!(refused >= 25, "{refused}");
    assert_eq!(neighbour.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn a_20_a_connection_over_the_limit_gets_503_and_leaving_makes_room() {
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_CONNECTIONS_MAX", "2")]).await;
    let first = AcpClient::connect_ws(&server).await;
    let mut second = AcpClient::connect_ws(&server).await;
    let refused = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .err();
    assert_eq!(refused.and_then(|error| error.status), Some(503));
    second.new_session().await;
    first.leave().await;
    let mut again = None;
    for _ in 0..200 {
        again = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
            .await
            .ok();
        if again.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
    again.unwrap().initialize().await;
}

#[tokio::test]
async fn a_prompt_is_refused_before_the_disk_is_full_and_the_session_stays() {
    let never = u64::MAX.to_string();
    let server = serve_with(echo(), &[("FASTNESS_LIMITS_DISK_FREE_MIN", &never)]).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let refused = client.try_prompt(&session, "hi").await.unwrap_err();
    assert_eq!(
        (refused.code, &refused.data["kind"]),
        (-32603, &json!("storage_full"))
    );
    assert_eq!(
        crate::support::stored(server.home(), &session),
        ["session.created"]
    );
    client.load_session(&session).await.unwrap();
}
