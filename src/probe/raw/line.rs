//! One connection of the raw transport: sends and reads at the same time.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::watch::Watch;
use crate::observation::Phase;
use crate::stream::{Exchange, Input};

/// Read buffer of an attempt; it grows for a head that is longer, never beyond the head's limit.
const BUFFER: usize = 16 * 1024;

/// One connection: what is still to be sent, and what was read.
pub(super) struct Line<S> {
    stream: S,
    unsent: Unsent,
    /// What was read: the first [`Self::filled`] bytes.
    pub(super) buffer: Vec<u8>,
    /// Bytes of the buffer that were read and not yet taken.
    pub(super) filled: usize,
}

/// What is left of the request.
enum Unsent {
    /// The request, and how much of it is gone.
    Bytes(Vec<u8>, usize),
    /// All is written; TLS may still hold some of it.
    Flush,
    /// All is with the socket, or the peer takes no more.
    Nothing,
}

enum Progress {
    Sent,
    Read(io::Result<usize>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// A connection on which this request is to be sent.
    pub(super) fn new(stream: S, request: Vec<u8>) -> Self {
        Self {
            stream,
            unsent: Unsent::Bytes(request, 0),
            buffer: vec![0; BUFFER],
            filled: 0,
        }
    }

    /// Reads once into the free part of the buffer while sending goes on; 0 is the peer's FIN,
    /// `None` the end of the attempt.
    pub(super) async fn read<C: Future<Output = ()>>(
        &mut self,
        exchange: &mut Exchange,
        watch: &mut Watch<'_, C>,
    ) -> Option<io::Result<usize>> {
        loop {
            let progress = watch
                .until(exchange, poll_fn(|cx| self.poll_progress(cx)))
                .await?;
            match progress {
                Progress::Sent => watch.tell(exchange, Input::Leave(Phase::Send)),
                Progress::Read(read) => return Some(read),
            }
        }
    }

    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<Progress> {
        match self.poll_send(cx) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Progress::Sent),
            Poll::Ready(Ok(false)) | Poll::Pending => {}
            // The peer takes no more. What it said before is still to be read, and how it left
            // shows there.
            Poll::Ready(Err(_)) => self.unsent = Unsent::Nothing,
        }
        let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let mut read = ReadBuf::new(free);
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read));
        let got = read.filled().len();
        self.filled += got;
        Poll::Ready(Progress::Read(result.map(|()| got)))
    }

    /// Sends what the socket takes; true at the moment at which all of it is gone.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut stream = Pin::new(&mut self.stream);
        while let Unsent::Bytes(bytes, gone) = &mut self.unsent {
            let rest = bytes.get(*gone..).unwrap_or_default();
            if rest.is_empty() {
                self.unsent = Unsent::Flush;
                break;
            }
            let wrote = ready!(stream.as_mut().poll_write(cx, rest))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *gone += wrote;
        }
        if matches!(self.unsent, Unsent::Flush) {
            ready!(stream.as_mut().poll_flush(cx))?;
            self.unsent = Unsent::Nothing;
            return Poll::Ready(Ok(true));
        }
        Poll::Ready(Ok(false))
    }

    /// Removes the first bytes of what was read.
    pub(super) fn discard(&mut self, length: usize) {
        let length = length.min(self.filled);
        self.buffer.copy_within(length..self.filled, 0);
        self.filled -= length;
    }

    /// Grows a full buffer; the parser refuses a head before this can pass its limit twice.
    pub(super) fn make_room(&mut self) {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }
}
