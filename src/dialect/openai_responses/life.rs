//! The life cycle of one stream: what was opened, what was said in it, and whether the final words
//! are the ones that were streamed.
//!
//! Texts are hashed and counted, never kept. Bounded in items and parts; beyond the bounds nothing
//! is claimed any more.

use super::wire;

/// Most items that are followed.
const MAX_ITEMS: usize = 128;

/// Most parts that are followed, all items together.
const MAX_PARTS: usize = 512;

/// How much of an id is compared, in bytes.
const MAX_ID: usize = 512;

/// Fewest times that a delta must have grown out of the one before to be its restatement, and the
/// fewest bytes of the last; the detector of such streams is elsewhere.
const LEAST_GROWTHS: u32 = 2;
const LEAST_RESTATED: usize = 8;

/// Parts whose deltas are compared with the next one; of later ones, restating is not seen.
const MAX_WATCHED: usize = 16;

/// Longest delta that is compared with the next one, in bytes.
const MAX_RESTATED: usize = 64 << 10;

/// Something wrong that does not keep the event from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Against the life cycle.
    Cycle(&'static str),
    /// Calls are mixed up.
    Call(&'static str),
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    /// A call with JSON arguments.
    Function,
    /// A call with free text.
    Custom,
    /// Hosted tools and whatever else.
    Other,
}

impl ItemKind {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Function,
            "custom_tool_call" => Self::Custom,
            _ => Self::Other,
        }
    }

    /// Whether the final words of such an item are compared with the streamed ones. Reasoning is
    /// left out: services shorten and encrypt it.
    const fn is_compared(self) -> bool {
        match self {
            Self::Message | Self::Function | Self::Custom => true,
            Self::Reasoning | Self::Other => false,
        }
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
    /// Raw reasoning, whose parts services need not announce.
    Reasoning,
    /// A summary of reasoning, in a list of its own.
    Summary,
}

/// Where an event belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) item: Option<u64>,
    pub(super) id: Option<&'a str>,
    pub(super) part: Option<u64>,
}

/// Length and hash of a text that came in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Joined {
    bytes: u64,
    hash: u64,
}

impl Joined {
    const EMPTY: Self = Self {
        bytes: 0,
        hash: 0xcbf2_9ce4_8422_2325,
    };

    fn of(text: &str) -> Self {
        let mut joined = Self::EMPTY;
        joined.add(text);
        joined
    }

    // FNV-1a: the same for any cutting into pieces.
    fn add(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.hash = text.bytes().fold(self.hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }
}

#[derive(Debug)]
struct Part {
    kind: PartKind,
    index: u64,
    joined: Joined,
    /// The last delta, as long as each began with the one before.
    last: Option<String>,
    growths: u32,
    /// A decoder on the way had left U+FFFD in a delta.
    replaced: bool,
    /// The whole text was said.
    stated: bool,
    done: bool,
}

impl Part {
    fn new(kind: PartKind, index: u64, watched: bool) -> Self {
        Self {
            kind,
            index,
            joined: Joined::EMPTY,
            last: watched.then(String::new),
            growths: 0,
            replaced: false,
            stated: false,
            done: false,
        }
    }

    fn add(&mut self, text: &str) {
        self.joined.add(text);
        self.replaced |= !text.is_ascii() && text.contains('\u{FFFD}');
        let Some(last) = &mut self.last else { return };
        if text.len() > MAX_RESTATED || !text.starts_with(last.as_str()) {
            self.last = None;
            return;
        }
        self.growths += u32::from(!last.is_empty() && text.len() > last.len());
        text.clone_into(last);
    }

    /// Whether a final text is the one that was streamed, or differs for a reason that is found
    /// elsewhere.
    fn is(&mut self, text: &str) -> bool {
        let whole = Joined::of(text);
        if whole == self.joined || self.replaced {
            return true;
        }
        let restated = self.growths >= LEAST_GROWTHS
            && text.len() >= LEAST_RESTATED
            && self.last.as_deref() == Some(text);
        if restated {
            self.joined = whole;
        }
        restated
    }

    /// Whether it must be announced and closed.
    fn is_followed(&self) -> bool {
        self.kind != PartKind::Reasoning
    }
}

#[derive(Debug)]
struct Item {
    kind: ItemKind,
    index: u64,
    id: Option<String>,
    parts: Vec<Part>,
    /// Arguments or input of a call.
    joined: Joined,
    /// Whether any of them came in a delta.
    streamed: bool,
    /// Whether the whole of them was passed on.
    told: bool,
    done: bool,
}

/// What a call's final words add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// They were streamed, or passed on before.
    Known,
    /// They are the first that is heard of them.
    New,
}

/// The life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    id: Option<String>,
    begun: bool,
    sequence: Option<u64>,
    items: Vec<Item>,
    parts: usize,
    /// Some output could not be placed or read, so that final words may rightly hold more.
    gap: bool,
}

const UNKNOWN_ITEM: Fault = Fault::Cycle("an event of an item that was never announced");
const NO_PLACE: Fault = Fault::Cycle("an event does not say which item it belongs to");
const NO_ID: Fault = Fault::Cycle("an event without an item_id");
const WRONG_ID: Fault = Fault::Cycle("an event names another item than its place");
const UNKNOWN_PART: Fault = Fault::Cycle("an event of a part that was never announced");
const OTHER_TEXT: Fault = Fault::Cycle("the final text is not the one that was streamed");
const CLOSED: Fault = Fault::Cycle("output after its part was closed");
const CLOSED_CALL: Fault = Fault::Cycle("output after its call was closed");
const CLOSED_TWICE: Fault = Fault::Cycle("what is closed is closed again");
const OTHER_ARGUMENTS: Fault =
    Fault::Call("the final arguments are not the ones that were streamed");

impl Cycle {
    /// A response begins; true where it is a second one, whose life begins anew.
    pub(super) fn begin(&mut self, id: Option<&str>) -> bool {
        let again = self.begun;
        if again {
            *self = Self::default();
        }
        self.begun = true;
        self.id = id.map(kept);
        again
    }

    /// Any other event; a response must have begun.
    pub(super) fn goes_on(&mut self) -> Option<Fault> {
        let early = !self.begun;
        self.begun = true;
        early.then_some(Fault::Cycle("an event before response.created"))
    }

    /// Takes an event's number.
    pub(super) fn number(&mut self, number: Option<u64>) -> Option<Fault> {
        let Some(number) = number else {
            return Some(Fault::Cycle("an event without a sequence_number"));
        };
        let before = self.sequence.replace(number);
        before
            .is_some_and(|before| number <= before)
            .then_some(Fault::Cycle("sequence numbers do not increase"))
    }

    /// Some event could not be read.
    pub(super) fn skip(&mut self) {
        self.gap = true;
    }

    /// Whether the model called tools.
    pub(super) fn has_calls(&self) -> bool {
        let call = |item: &Item| matches!(item.kind, ItemKind::Function | ItemKind::Custom);
        self.items.iter().any(call)
    }

    /// An item is announced.
    pub(super) fn add_item(
        &mut self,
        index: Option<u64>,
        kind: ItemKind,
        id: Option<&str>,
    ) -> Option<Fault> {
        let Some(index) = index else {
            self.gap = true;
            return Some(NO_PLACE);
        };
        let before = self.items.iter().rev().find(|item| item.index == index);
        // Two calls in one place are told by who joins their arguments.
        let fault = before
            .filter(|before| (before.kind, kind) != (ItemKind::Function, ItemKind::Function))
            .map(|_| Fault::Cycle("two items in one place"));
        if self.items.len() >= MAX_ITEMS {
            self.gap = true;
            return None;
        }
        self.items.push(Item {
            kind,
            index,
            id: id.map(kept),
            parts: Vec::new(),
            joined: Joined::EMPTY,
            streamed: false,
            told: false,
            done: false,
        });
        fault
    }

    /// The item that an event belongs to, and what is wrong with how it says so.
    fn find(&mut self, place: Place<'_>) -> (Option<&mut Item>, Option<Fault>) {
        let Some(index) = place.item else {
            self.gap = true;
            return (None, Some(NO_PLACE));
        };
        let full = self.items.len() >= MAX_ITEMS;
        let id = place.id.map(|id| cut(id, MAX_ID));
        let here = |item: &&mut Item| item.index == index;
        let named = |item: &Item| item.id.is_none() || item.id.as_deref() == id;
        let unnamed = if id.is_some() { WRONG_ID } else { NO_ID };
        let exact = self
            .items
            .iter()
            .rposition(|item| item.index == index && named(item));
        if let Some(exact) = exact {
            return (self.items.get_mut(exact), None);
        }
        match self.items.iter_mut().rev().find(here) {
            Some(item) => (Some(item), Some(unnamed)),
            None => {
                self.gap = true;
                (None, (!full).then_some(UNKNOWN_ITEM))
            }
        }
    }

    /// A part is announced.
    pub(super) fn add_part(&mut self, place: Place<'_>, kind: PartKind) -> Option<Fault> {
        let full = self.parts >= MAX_PARTS;
        let watched = self.parts < MAX_WATCHED;
        let (item, fault) = self.find(place);
        let (Some(item), Some(index)) = (item, place.part) else {
            return fault.or(Some(NO_PLACE));
        };
        if full {
            self.gap = true;
            return fault;
        }
        let late = item.done.then_some(CLOSED_TWICE);
        let twice = part(item, kind, index).map(|_| Fault::Cycle("a part is announced twice"));
        if twice.is_none() {
            item.parts.push(Part::new(kind, index, watched));
            self.parts += 1;
        }
        fault.or(late).or(twice)
    }

    /// A piece of text.
    pub(super) fn add_text(
        &mut self,
        place: Place<'_>,
        kind: PartKind,
        text: &str,
    ) -> Option<Fault> {
        let full = self.parts >= MAX_PARTS;
        let watched = self.parts < MAX_WATCHED;
        let (item, fault) = self.find(place);
        let (Some(item), Some(index)) = (item, place.part) else {
            self.gap = true;
            return fault.or(Some(NO_PLACE));
        };
        let late = item.done.then_some(CLOSED);
        if let Some(part) = part(item, kind, index) {
            part.add(text);
            let shut = part.stated || part.done;
            let late = late.or(if shut { Some(CLOSED) } else { None });
            return fault.or(late);
        }
        if full {
            self.gap = true;
            return fault;
        }
        let mut new = Part::new(kind, index, watched);
        new.add(text);
        let unknown = new.is_followed().then_some(UNKNOWN_PART);
        item.parts.push(new);
        self.parts += 1;
        fault.or(late).or(unknown)
    }

    /// The part that an event belongs to, which must be there, and what is wrong with how it says
    /// so.
    fn known(&mut self, place: Place<'_>, kind: PartKind) -> (Option<&mut Part>, Option<Fault>) {
        let full = self.parts >= MAX_PARTS;
        let (item, fault) = self.find(place);
        let (Some(item), Some(index)) = (item, place.part) else {
            return (None, fault.or(Some(NO_PLACE)));
        };
        match part(item, kind, index) {
            Some(part) => (Some(part), fault),
            None => (None, fault.or(if full { None } else { Some(UNKNOWN_PART) })),
        }
    }

    /// The whole text of a part.
    pub(super) fn state_text(
        &mut self,
        place: Place<'_>,
        kind: PartKind,
        text: &str,
    ) -> Option<Fault> {
        let sure = !self.gap;
        let (part, fault) = match self.known(place, kind) {
            (Some(part), fault) => (part, fault),
            (None, fault) => return fault,
        };
        let twice = part.stated.then_some(CLOSED_TWICE);
        part.stated = true;
        let other = (sure && !part.is(text)).then_some(OTHER_TEXT);
        fault.or(twice).or(other)
    }

    /// A part is closed, with its whole text.
    pub(super) fn end_part(
        &mut self,
        place: Place<'_>,
        kind: PartKind,
        text: &str,
    ) -> Option<Fault> {
        let sure = !self.gap;
        let (part, fault) = match self.known(place, kind) {
            (Some(part), fault) => (part, fault),
            (None, fault) => return fault,
        };
        let twice = part.done.then_some(CLOSED_TWICE);
        part.done = true;
        let unsaid = sure && part.is_followed() && !part.stated;
        let unsaid = unsaid.then_some(Fault::Cycle("a part is closed without its final text"));
        let other = (sure && !part.is(text)).then_some(OTHER_TEXT);
        fault.or(twice).or(unsaid).or(other)
    }

    /// A piece of a call's arguments or input.
    pub(super) fn add_words(&mut self, place: Place<'_>, text: &str) -> Option<Fault> {
        let (item, fault) = self.find(place);
        let Some(item) = item else {
            return fault;
        };
        item.joined.add(text);
        item.streamed = true;
        let late = item.done || item.told;
        fault.or(if late { Some(CLOSED_CALL) } else { None })
    }

    /// The whole of a call's arguments or input.
    pub(super) fn state_words(&mut self, place: Place<'_>, text: &str) -> (Words, Option<Fault>) {
        let sure = !self.gap;
        let (item, fault) = self.find(place);
        let Some(item) = item else {
            return (Words::Known, fault);
        };
        let (words, other) = whole(item, text, sure);
        (words, fault.or(other))
    }

    /// An item is closed; the words of a call may be new.
    pub(super) fn end_item(
        &mut self,
        index: Option<u64>,
        last: &wire::Item<'_>,
    ) -> (Words, Option<Fault>) {
        let sure = !self.gap;
        let place = Place {
            item: index,
            id: last.id.0.as_deref(),
            part: None,
        };
        let (item, fault) = self.find(place);
        let Some(item) = item else {
            return (Words::Known, fault);
        };
        // An id is optional for calls.
        let fault = fault.filter(|fault| *fault != NO_ID);
        let twice = item.done.then_some(CLOSED_TWICE);
        item.done = true;
        let open = |part: &Part| part.is_followed() && !part.done;
        let open = item.parts.iter().any(open);
        let open = open.then_some(Fault::Cycle("an item is closed with a part open"));
        let fault = fault.or(twice).or(open);
        let (words, other) = match item.kind {
            ItemKind::Function => {
                whole(item, last.arguments.0.as_deref().unwrap_or_default(), sure)
            }
            ItemKind::Custom => whole(item, last.input.0.as_deref().unwrap_or_default(), sure),
            ItemKind::Message => {
                let same = !sure || says(item, last);
                (Words::Known, (!same).then_some(OTHER_TEXT))
            }
            ItemKind::Reasoning | ItemKind::Other => (Words::Known, None),
        };
        (words, fault.or(other))
    }

    /// Whether an item is still open.
    pub(super) fn open_item(&self) -> Option<Fault> {
        let open = self.items.iter().any(|item| !item.done);
        open.then_some(Fault::Cycle("an item is still open at the end"))
    }

    /// What a final response holds must be what was streamed.
    pub(super) fn compare(&mut self, last: &[&wire::Item<'_>]) -> Option<Fault> {
        const LESS: Fault = Fault::Cycle("the final response does not hold what was streamed");
        if self.gap {
            return None;
        }
        let mut streamed: Vec<&mut Item> = self
            .items
            .iter_mut()
            .filter(|item| item.kind.is_compared())
            .collect();
        streamed.sort_by_key(|item| item.index);
        let kind = |item: &wire::Item<'_>| ItemKind::of(item.kind.0.as_deref().unwrap_or_default());
        let last = last.iter().filter(|item| kind(item).is_compared());
        if last.clone().count() != streamed.len() {
            return Some(LESS);
        }
        streamed.into_iter().zip(last).find_map(|(item, last)| {
            if item.kind != kind(last) {
                return Some(LESS);
            }
            match item.kind {
                ItemKind::Message => (!says(item, last)).then_some(OTHER_TEXT),
                ItemKind::Function => {
                    whole(item, last.arguments.0.as_deref().unwrap_or_default(), true).1
                }
                ItemKind::Custom => {
                    whole(item, last.input.0.as_deref().unwrap_or_default(), true).1
                }
                ItemKind::Reasoning | ItemKind::Other => None,
            }
        })
    }

    /// Whether a final response has another name than the one that began.
    pub(super) fn is_other(&self, id: Option<&str>) -> bool {
        matches!((&self.id, id), (Some(before), Some(now)) if before != cut(now, MAX_ID))
    }
}

/// The part of an item in a place of its own list.
fn part(item: &mut Item, kind: PartKind, index: u64) -> Option<&mut Part> {
    let summary = kind == PartKind::Summary;
    let mut parts = item.parts.iter_mut().rev();
    parts.find(|part| part.index == index && (part.kind == PartKind::Summary) == summary)
}

/// Takes the whole words of a call.
fn whole(item: &mut Item, text: &str, sure: bool) -> (Words, Option<Fault>) {
    if item.streamed || item.told {
        let same = !sure || item.joined == Joined::of(text);
        item.told = true;
        return (Words::Known, (!same).then_some(OTHER_ARGUMENTS));
    }
    item.told = true;
    item.joined = Joined::of(text);
    (Words::New, None)
}

/// Whether a message's final parts are the streamed ones.
fn says(item: &mut Item, last: &wire::Item<'_>) -> bool {
    let mut streamed: Vec<&mut Part> = item.parts.iter_mut().collect();
    streamed.sort_by_key(|part| part.index);
    let parts = last.content.iter().flat_map(|parts| parts.iter());
    let mut last = parts.filter_map(words_of);
    let same = streamed.into_iter().all(|part| {
        let next = last.next();
        next.is_some_and(|(kind, text)| part.kind == kind && part.is(text))
    });
    same && last.next().is_none()
}

/// Kind and text of a message's part; `None` for what is no text.
pub(super) fn words_of<'a>(part: &'a wire::Part<'_>) -> Option<(PartKind, &'a str)> {
    let (kind, text) = match part.kind.0.as_deref()? {
        "output_text" => (PartKind::Text, &part.text),
        "refusal" => (PartKind::Refusal, &part.refusal),
        "reasoning_text" => (PartKind::Reasoning, &part.text),
        "summary_text" => (PartKind::Summary, &part.text),
        _ => return None,
    };
    Some((kind, text.0.as_deref().unwrap_or_default()))
}

fn kept(id: &str) -> String {
    cut(id, MAX_ID).to_owned()
}

/// The longest beginning of `text` that has at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
