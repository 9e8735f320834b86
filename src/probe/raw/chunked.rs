//! Takes the chunked transfer coding off a body: sans-IO, incremental, strict (RFC 9112 §7.1).
//!
//! Keeps no bytes: data is handed out as slices of what came in. Extensions and trailers are
//! accepted and skipped, and both are bounded, since the relay decides how long they are.

use crate::stream::FramingFault;

/// Longest chunk-size line, extensions included.
const MAX_SIZE_LINE: u32 = 4 * 1024;

/// Most bytes of all chunk-size lines of a body beyond what a size needs: extensions and padding.
const MAX_EXTENSIONS: u32 = 1024 * 1024;

/// A size line without extension or padding: 16 digits and CR.
const PLAIN_SIZE_LINE: u32 = 17;

/// Most bytes of the trailer section.
const MAX_TRAILERS: u32 = 16 * 1024;

/// What the front of the input turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Body bytes.
    Data(&'a [u8]),
    /// The body is complete; what is left of the input does not belong to it.
    End,
}

/// A chunked body being decoded.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// Size of the current chunk while its line is read, then what is left of it.
    left: u64,
    /// Bytes of the current size line or of the trailer section so far.
    line: u32,
    /// Bytes of all size lines that no size needs.
    extensions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    /// After the digits: white space that old servers pad with.
    SizePadding,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
    Broken(FramingFault),
}

impl Chunked {
    /// Starts before the first chunk.
    pub(super) fn new() -> Self {
        Self {
            state: State::SizeStart,
            left: 0,
            line: 0,
            extensions: 0,
        }
    }

    /// Takes the next piece off the front of `input`; `None` when it needs more bytes.
    ///
    /// A fault is final: every later call repeats it.
    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<Piece<'a>>, FramingFault> {
        loop {
            match self.state {
                State::Data if !input.is_empty() => {
                    let room = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let (data, rest) = input.split_at(room.min(input.len()));
                    *input = rest;
                    self.left -= data.len() as u64;
                    if self.left == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok(Some(Piece::Data(data)));
                }
                State::Broken(fault) => return Err(fault),
                State::Done => return Ok(None),
                State::SizeStart
                | State::Size
                | State::SizePadding
                | State::Extension
                | State::SizeLf
                | State::Data
                | State::DataCr
                | State::DataLf
                | State::TrailerStart
                | State::Trailer
                | State::TrailerLf
                | State::LastLf => {
                    let Some((&byte, rest)) = input.split_first() else {
                        return Ok(None);
                    };
                    // A byte that breaks the framing is left in the input.
                    self.state = self.step(byte);
                    if let State::Broken(fault) = self.state {
                        return Err(fault);
                    }
                    *input = rest;
                    if self.state == State::Done {
                        return Ok(Some(Piece::End));
                    }
                }
            }
        }
    }

    /// The state after one framing byte.
    fn step(&mut self, byte: u8) -> State {
        const BAD_SIZE: State = State::Broken(FramingFault::BadChunkSize);
        const BAD_END: State = State::Broken(FramingFault::BadChunkEnd);
        match self.state {
            State::SizeStart | State::Size | State::SizePadding | State::Extension => {
                self.line += 1;
                self.extensions += u32::from(self.line > PLAIN_SIZE_LINE);
                if self.line > MAX_SIZE_LINE || self.extensions > MAX_EXTENSIONS {
                    return BAD_SIZE;
                }
                self.size_line(byte).unwrap_or(BAD_SIZE)
            }
            State::SizeLf if byte == b'\n' => {
                self.line = 0;
                if self.left == 0 {
                    State::TrailerStart
                } else {
                    State::Data
                }
            }
            State::SizeLf => BAD_SIZE,
            State::DataCr if byte == b'\r' => State::DataLf,
            State::DataLf if byte == b'\n' => State::SizeStart,
            State::DataCr | State::DataLf => BAD_END,
            State::TrailerStart | State::Trailer => {
                self.line += 1;
                match byte {
                    _ if self.line > MAX_TRAILERS => State::Broken(FramingFault::HeadTooLarge),
                    b'\r' if self.state == State::TrailerStart => State::LastLf,
                    b'\r' => State::TrailerLf,
                    b'\n' => BAD_END,
                    _ => State::Trailer,
                }
            }
            State::TrailerLf if byte == b'\n' => State::TrailerStart,
            State::LastLf if byte == b'\n' => State::Done,
            State::TrailerLf | State::LastLf => BAD_END,
            State::Data | State::Done | State::Broken(_) => self.state,
        }
    }

    /// The state after one byte of a size line; `None` if it cannot stand there.
    fn size_line(&mut self, byte: u8) -> Option<State> {
        let digits = matches!(self.state, State::SizeStart | State::Size);
        let any = self.state != State::SizeStart;
        match byte {
            _ if self.state == State::Extension => match byte {
                b'\r' => Some(State::SizeLf),
                b'\n' => None,
                _ => Some(State::Extension),
            },
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' if digits => {
                let digit = u64::from(char::from(byte).to_digit(16)?);
                self.left = self.left.checked_mul(16)?.checked_add(digit)?;
                Some(State::Size)
            }
            b' ' | b'\t' if any => Some(State::SizePadding),
            b';' if any => Some(State::Extension),
            b'\r' if any => Some(State::SizeLf),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All of `input`, cut into reads of the given lengths (the last one takes the rest).
    fn decode(input: &[u8], cuts: &[usize]) -> (Vec<u8>, Result<bool, FramingFault>, usize) {
        let mut decoder = Chunked::new();
        let mut body = Vec::new();
        let mut at = 0;
        let mut cuts = cuts.iter();
        while at < input.len() {
            let end = cuts
                .next()
                .map_or(input.len(), |cut| input.len().min(at + cut.max(&1)));
            let mut read = &input[at..end];
            loop {
                match decoder.next(&mut read) {
                    Ok(Some(Piece::Data(data))) => body.extend_from_slice(data),
                    Ok(Some(Piece::End)) => {
                        return (body, Ok(true), input.len() - end + read.len());
                    }
                    Ok(None) => break,
                    Err(fault) => return (body, Err(fault), input.len() - end + read.len()),
                }
            }
            at = end;
        }
        (body, Ok(false), 0)
    }

    #[test]
    fn extensions_padding_upper_case_and_trailers_are_accepted() {
        let input =
            b"5;sig=\"a b\"\r\nHello\r\n0A  \r\n 012345678\r\n0\r\nx-checksum: 1\r\n\r\nEXTRA";
        let (body, end, surplus) = decode(input, &[]);
        assert_eq!(
            (body.as_slice(), end, surplus),
            (&b"Hello 012345678"[..], Ok(true), 5)
        );
    }

    #[test]
    fn every_split_of_the_input_gives_the_same_body() {
        let input = b"3;a\r\nabc\r\n1f\r\n0123456789abcdef0123456789abcde\r\n0\r\nt: v\r\n\r\n";
        let whole = decode(input, &[]);
        for cut in 1..input.len() {
            assert_eq!(decode(input, &[cut]), whole, "cut at {cut}");
        }
        assert_eq!(decode(input, &vec![1; input.len()]), whole);
    }

    #[test]
    fn a_size_that_is_no_hexadecimal_number_is_a_bad_chunk_size() {
        for bad in [
            &b"zz\r\n"[..],
            b"\r\n",
            b" 5\r\n",
            b";x\r\n",
            b"5 5\r\n",
            b"5\nhello",
            b"5;x\nhello",
            b"5\rx",
            b"-1\r\n",
            b"0x5\r\n",
            b"10000000000000000\r\n",
        ] {
            let (_, end, _) = decode(bad, &[]);
            assert_eq!(end, Err(FramingFault::BadChunkSize), "{bad:?}");
        }
    }

    #[test]
    fn data_before_a_bad_size_line_is_still_delivered() {
        let (body, end, _) = decode(b"2\r\nok\r\nzz\r\n", &[]);
        assert_eq!(
            (body.as_slice(), end),
            (&b"ok"[..], Err(FramingFault::BadChunkSize))
        );
    }

    #[test]
    fn a_chunk_that_is_not_closed_by_crlf_is_a_bad_chunk_end() {
        for bad in [
            &b"2\r\nabX\r\n"[..],
            b"2\r\nab\nX",
            b"2\r\nab\rX",
            b"0\r\n\n",
            b"0\r\na: b\n",
            b"0\r\n\rX",
        ] {
            let (_, end, _) = decode(bad, &[]);
            assert_eq!(end, Err(FramingFault::BadChunkEnd), "{bad:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_have_a_limit() {
        let mut long = b"1;".to_vec();
        long.resize(5000, b'x');
        assert_eq!(decode(&long, &[]).1, Err(FramingFault::BadChunkSize));
        let mut zeros = vec![b'0'; 5000];
        zeros.extend_from_slice(b"1\r\n");
        assert_eq!(decode(&zeros, &[]).1, Err(FramingFault::BadChunkSize));
        let many = format!("1;{}\r\nx\r\n", "e".repeat(4000)).repeat(300);
        let (body, end, _) = decode(many.as_bytes(), &[]);
        assert_eq!(end, Err(FramingFault::BadChunkSize));
        assert!(body.len() > 250, "{}", body.len());
        let mut trailers = b"0\r\n".to_vec();
        for _ in 0..5000 {
            trailers.extend_from_slice(b"a: b\r\n");
        }
        assert_eq!(decode(&trailers, &[]).1, Err(FramingFault::HeadTooLarge));
    }

    #[test]
    fn an_unfinished_body_asks_for_more() {
        for cut in [&b"5\r\nHel"[..], b"5\r", b"0\r\n", b"0\r\nt: v\r\n", b""] {
            assert_eq!(decode(cut, &[]).1, Ok(false), "{cut:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_reads_give_one_answer(
            input in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'1'), Just(b';'), any::<u8>()],
                0..200,
            ),
            cuts in proptest::collection::vec(1usize..20, 0..40),
        ) {
            prop_assert_eq!(decode(&input, &cuts), decode(&input, &[]));
        }

        #[test]
        fn what_was_encoded_comes_back(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..100), 0..10),
            cuts in proptest::collection::vec(1usize..30, 0..60),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(decode(&wire, &cuts), (chunks.concat(), Ok(true), 0));
        }
    }
}
