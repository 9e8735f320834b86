//! A request body that notes when it is asked for and when its last piece is handed over.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Sink, What};

/// Most bytes handed over at once: a larger body is asked for again only as the socket takes it,
/// so the last piece marks the end of sending and not the filling of a buffer.
const PIECE: usize = 64 * 1024;

/// A body of known length (so that it goes out with a Content-Length).
#[derive(Debug)]
pub(crate) struct TimedBody {
    rest: Bytes,
    started: bool,
    sink: Arc<Sink>,
}

impl TimedBody {
    pub(crate) fn new(bytes: Bytes, sink: Arc<Sink>) -> Self {
        Self {
            rest: bytes,
            started: false,
            sink,
        }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.started {
            self.started = true;
            self.sink.note(0, What::Sending);
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        if self.rest.is_empty() {
            self.sink.note(0, What::Sent);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}
