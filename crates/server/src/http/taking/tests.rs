//! A body's giving and a client's taking, without a network.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, sleep};

use super::{PIECE_BYTES_MAX, Pieces, unless_stalled};

const STALL: Duration = Duration::from_secs(60);

/// Takes the next piece of a body that has `whole` to give, or nothing yet.
async fn take(pieces: &mut Pieces, whole: Option<usize>) -> usize {
    let body = || match whole {
        Some(bytes) => Poll::Ready(Some(Ok::<_, Infallible>(Frame::data(Bytes::from(vec![
            b'x';
            bytes
        ]))))),
        None => Poll::Pending,
    };
    let taken = poll_fn(|_| match pieces.poll(body) {
        Poll::Ready(taken) => Poll::Ready(taken),
        // Whoever has nothing to give is not waited for here.
        Poll::Pending => Poll::Ready(None),
    });
    let taken = taken.await.map(|frame| frame.unwrap().into_data().unwrap());
    taken.map_or(0, |piece| piece.len())
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_piece_at_a_time_is_served_and_who_takes_none_is_not() {
    let (mut pieces, whole) = (Pieces::default(), 5 * PIECE_BYTES_MAX + 1);
    let (mut bytes, mut is_over) = (0, false);
    let slowly = async {
        while bytes < whole {
            bytes += take(&mut pieces, Some(whole)).await;
            assert_eq!(bytes + pieces.len(), whole);
            sleep(STALL * 9 / 10).await;
        }
        // Nothing to take is no reason to hurry.
        assert_eq!(take(&mut pieces, None).await, 0);
        sleep(STALL * 10).await;
        is_over = true;
    };
    unless_stalled(STALL, slowly).await;
    assert!(is_over, "it was cut off at {bytes} of {whole}");

    let mut pieces = Pieces::default();
    let never = async {
        take(&mut pieces, Some(whole)).await;
        std::future::pending().await
    };
    let began = Instant::now();
    unless_stalled(STALL, never).await;
    assert_eq!(began.elapsed(), STALL);
}

#[tokio::test]
async fn where_the_socket_itself_says_who_takes_nothing_pieces_stay_whole() {
    let (mut pieces, whole) = (Pieces::default(), 5 * PIECE_BYTES_MAX);
    assert_eq!(take(&mut pieces, Some(whole)).await, whole);
}
