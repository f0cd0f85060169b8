//! `GET {stream}?live=sse` (base protocol §8, `extensions.md` §10): everything from the start on,
//! then whatever comes. Each data event and its control event leave in one piece.

mod shared;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use headwater_core::content::Mode;
use headwater_core::ids::{Offset, Record};
use headwater_core::stream::read::{Beyond, Facts, Start};
use headwater_core::wire::cursor;
use headwater_core::wire::headers as h;
use headwater_core::wire::query::ReadQuery;
use headwater_core::wire::sse::{self, Control, TextEvents};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, header};
use tokio::sync::watch;
use tokio::time::Instant;

use self::shared::{Event, Sight};
use super::App;
use super::body::Body;
use super::page::stream_headers;
use super::respond::{Answer, Failure};
use crate::auth::Visit;
use crate::engine::Watch;
use crate::limits::Seat;
use crate::metrics::{LiveKind, Open};
use crate::random;

pub(crate) use self::shared::Events;

pub(super) async fn read(
    app: &Arc<App>,
    head: &Parts,
    facts: Facts,
    start: Start,
    query: ReadQuery,
) -> Answer {
    let position = match &start {
        Start::Beyond(beyond) => Position::Beyond(beyond.clone()),
        start => {
            let (offset, record) = app.place(&facts, start).await?;
            Position::At(offset, record)
        }
    };
    let seat = app.seat(facts.id)?;
    // A refusal, which leaves the TTL window alone, has been given by now.
    app.engine.renew(&facts).wait().await?;
    // Watched before the head goes out, so that the window does not run from here on.
    let watch = app.engine.watch(facts.id);
    let mut reply = Response::new(Body::empty());
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-store, no-transform"),
    );
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if facts.content.mode() == Mode::Binary {
        headers.insert(h::STREAM_SSE_DATA_ENCODING, HeaderValue::from_static("base64"));
    }
    stream_headers(headers, &facts);
    let mut reader = LiveReader::new(app, (watch, seat), facts, position, query);
    reader.visit = app.visit(head);
    *reply.body_mut() = Body::Live(Box::pin(events(reader)));
    Ok(reply)
}

/// The most that one data event holds, unless a single message is longer: what a client that does
/// not read may keep in memory.
const EVENT_BYTES_MAX: u64 = 128 * 1024;

/// Asks nginx not to collect events.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Where a live reader stands.
#[derive(Debug, Clone)]
enum Position {
    At(Offset, Record),
    Beyond(Beyond),
}

/// One connection.
struct LiveReader {
    app: Arc<App>,
    watch: Watch,
    _seat: Seat,
    facts: Facts,
    position: Position,
    /// Records that may still be sent, when the client set a limit.
    records_left: Option<u64>,
    text: TextEvents,
    /// Whether the last page reached the tail; a message that is held back counts as reached.
    caught_up: bool,
    client_cursor: Option<String>,
    jitter: u64,
    /// The offset that the last control event named: none is named twice in a row.
    told: Option<Beyond>,
    until: Instant,
    draining: watch::Receiver<bool>,
    /// Ends with the credential of whoever reads.
    visit: Option<Box<Visit>>,
    ended: bool,
    /// Counts as a reader.
    _counted: Open,
}

/// What a live reader does next.
enum Step {
    Send(Bytes),
    End,
}

fn events(reader: LiveReader) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold(reader, |mut reader| async move {
        if reader.ended {
            return None;
        }
        match reader.step().await {
            Ok(Step::Send(bytes)) => Some((Ok(bytes), reader)),
            // A stream that is deleted, trimmed or cannot be read on ends here; the client learns
            // why when it comes back.
            Ok(Step::End) => None,
            Err(failure) => {
                failure.broke_off();
                None
            }
        }
    })
}

impl LiveReader {
    fn new(
        app: &Arc<App>,
        (watch, seat): (Watch, Seat),
        facts: Facts,
        position: Position,
        query: ReadQuery,
    ) -> Self {
        let longest = app.config.sse_max_duration;
        // Up to a tenth less, so that readers that came together do not come back together.
        let tenth_ms = u64::try_from(longest.as_millis() / 10).unwrap_or(u64::MAX);
        let less = Duration::from_millis(random::number() % tenth_ms.max(1));
        Self {
            watch,
            _seat: seat,
            facts,
            position,
            records_left: query.max_records,
            text: TextEvents::default(),
            caught_up: false,
            client_cursor: query.cursor,
            jitter: random::number(),
            told: None,
            until: Instant::now() + longest.saturating_sub(less),
            draining: app.draining.clone(),
            visit: None,
            ended: false,
            _counted: Open::reader(&app.sheet, LiveKind::Sse),
            app: Arc::clone(app),
        }
    }

    async fn step(&mut self) -> Result<Step, Failure> {
        loop {
            if self.visit.as_ref().is_some_and(|visit| visit.is_over()) {
                return Ok(Step::End);
            }
            let changed = self.watch.changed();
            self.facts = self.app.engine.look_at(self.facts.id).wait().await??;
            if let Some(bytes) = self.look().await? {
                return Ok(Step::Send(bytes));
            }
            if self.ended || Instant::now() >= self.until {
                return Ok(Step::End);
            }
            if *self.draining.borrow_and_update() {
                self.ended = true;
                return Ok(Step::Send(self.control_only()));
            }
            let keep_alive = Instant::now() + self.app.config.sse_keep_alive;
            let until = self.until.min(keep_alive);
            tokio::select! {
                () = changed => {}
                _ = self.draining.changed() => {}
                () = Visit::over_if_any(&mut self.visit) => return Ok(Step::End),
                () = tokio::time::sleep_until(until) => {
                    if until == keep_alive {
                        return Ok(Step::Send(Bytes::from_static(sse::KEEP_ALIVE)));
                    }
                }
            }
        }
    }

    /// What is to be sent now: messages with their control event, a control event alone, or
    /// nothing.
    async fn look(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Position::Beyond(beyond) = &self.position
            && let Some(reached) = App::reached(&self.facts, beyond)
        {
            let (offset, record) = self.app.place(&self.facts, &reached).await?;
            self.position = Position::At(offset, record);
        }
        let Position::At(offset, record) = self.position else {
            return Ok(self.control_if_new());
        };
        if offset < self.facts.retained {
            return Err(self.facts.trimmed().into());
        }
        if self.records_left == Some(0) {
            self.ended = true;
            return Ok(None);
        }
        if offset >= self.facts.tail {
            self.caught_up = true;
            return Ok(self.control_if_new());
        }
        // A client's limit of records is its own affair, and cuts events where nobody else does.
        let sight = self.records_left.is_none().then(|| self.sight(offset));
        if let Some(event) = sight.as_ref().and_then(|sight| self.app.events.get(sight)) {
            return Ok(Some(self.take(event)));
        }
        let bytes_max = self.app.config.read_page_bytes.min(EVENT_BYTES_MAX);
        let from = (offset, record);
        let page = self.app.page(&self.facts, from, bytes_max, self.records_left).await?;
        let (to, payload) = match self.facts.content.mode() {
            Mode::Text => self.whole_characters((offset, record), page.to).await?,
            Mode::Json | Mode::Binary => {
                self.caught_up = page.to.0 == self.facts.tail;
                (page.to, self.app.collect(&self.facts, offset, page.to.0).await?.bytes)
            }
        };
        if to.0 == offset {
            return Ok(self.control_if_new());
        }
        let mut out = BytesMut::with_capacity(payload.len() + 256);
        // With an id of its own, so that a reader that is cut right behind it gets nothing twice.
        sse::id(&mut out, &to.0.to_string());
        match self.facts.content.mode() {
            Mode::Json => sse::data_json_array(&mut out, &payload),
            Mode::Text => self.text.data(&mut out, &payload),
            Mode::Binary => sse::data_base64(&mut out, &payload),
        }
        self.position = Position::At(to.0, to.1);
        if let Some(left) = &mut self.records_left {
            *left = left.saturating_sub(to.1.0 - record.0);
        }
        self.control(&mut out);
        let bytes = out.freeze();
        if let Some(sight) = sight {
            let (text, caught_up) = (self.text, self.caught_up);
            self.app.events.keep(sight, Event { bytes: bytes.clone(), to, text, caught_up });
        }
        Ok(Some(bytes))
    }

    /// What the next event would be made from.
    fn sight(&self, from: Offset) -> Sight {
        let Facts { id, tail, closed, first, .. } = self.facts;
        Sight { stream: id, from, tail, closed, first, text: self.text, cursor: self.cursor() }
    }

    /// Takes an event that was made for a reader at the same place.
    fn take(&mut self, event: Event) -> Bytes {
        self.position = Position::At(event.to.0, event.to.1);
        (self.text, self.caught_up) = (event.text, event.caught_up);
        self.told = Some(self.next_offset());
        self.ended |= self.facts.closed && self.at_end();
        event.bytes
    }

    fn cursor(&self) -> String {
        let now = self.app.engine.now().wall.0;
        cursor::next(self.client_cursor.as_deref(), now, self.jitter)
    }

    /// Cuts a page of text where no character is torn: a message that ends inside one is held back
    /// until the rest arrives or the stream closes.
    async fn whole_characters(
        &mut self,
        from: (Offset, Record),
        page_end: (Offset, Record),
    ) -> Result<((Offset, Record), Bytes), Failure> {
        let mut end = page_end;
        loop {
            let page = self.app.collect(&self.facts, from.0, end.0).await?;
            self.caught_up = end.0 == self.facts.tail;
            if sse::incomplete_len(&page.bytes) == 0 || (self.caught_up && self.facts.closed) {
                return Ok((end, page.bytes));
            }
            if self.caught_up {
                // Hold back as few messages as possible: at most four, since a character has at
                // most four bytes.
                let whole = |len: &usize| sse::incomplete_len(&page.bytes[..*len]) == 0;
                let kept = page.ends.iter().rposition(whole).map_or(0, |last| last + 1);
                let len = kept.checked_sub(1).map_or(0, |last| page.ends[last]);
                let to = (from.0.plus(len as u64), Record(from.1.0 + kept as u64));
                return Ok((to, page.bytes.slice(..len)));
            }
            // The rest is there already: take one more message.
            let more = self.app.extent(&self.facts, end.0, 1, 1).await?;
            end = (more.end, more.record_end);
        }
    }

    fn control_if_new(&mut self) -> Option<Bytes> {
        let new = self.told.as_ref() != Some(&self.next_offset());
        let closed = self.facts.closed && self.at_end();
        (new || closed).then(|| self.control_only())
    }

    fn control_only(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        self.control(&mut out);
        out.freeze()
    }

    fn control(&mut self, out: &mut BytesMut) {
        let next_offset = self.next_offset();
        let closed = self.facts.closed && self.at_end();
        let cursor = self.cursor();
        let next_record = match self.position {
            Position::At(_, record) => record.0,
            Position::Beyond(_) => self.facts.next.0,
        };
        let json = self.facts.is_json();
        sse::control(
            out,
            &Control {
                next_offset: &next_offset.to_string(),
                cursor: (!closed).then_some(&cursor),
                up_to_date: self.caught_up || matches!(self.position, Position::Beyond(_)),
                closed,
                first_record: json.then_some(self.facts.first.0),
                next_record: json.then_some(next_record),
            },
        );
        self.told = Some(next_offset);
        self.ended |= closed;
    }

    fn at_end(&self) -> bool {
        match self.position {
            Position::At(offset, _) => offset == self.facts.tail,
            Position::Beyond(_) => true,
        }
    }

    /// Where the client is to read on.
    fn next_offset(&self) -> Beyond {
        match &self.position {
            Position::At(offset, _) => Beyond::Offset(*offset),
            Position::Beyond(beyond) => beyond.clone(),
        }
    }
}
