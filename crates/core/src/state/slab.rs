//! Values that stay where they are put: no copy when there come more, and no room for twice as
//! many.

/// Values a piece of memory.
const CHUNK: usize = 32;

/// Where a value lies.
pub(super) type Slot = u32;

/// A growing table with holes. Room that was given up is filled again first.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    holes: Vec<Slot>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), holes: Vec::new() }
    }

    pub(super) fn put(&mut self, value: T) -> Slot {
        if let Some(slot) = self.holes.pop() {
            *self.entry(slot) = Some(value);
            return slot;
        }
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("there is a chunk with room");
        last.push(Some(value));
        Slot::try_from(full + last.len() - 1).expect("fewer than 2^32 values fit into memory")
    }

    pub(super) fn take(&mut self, slot: Slot) -> T {
        self.holes.push(slot);
        self.entry(slot).take().expect("the slot is in use")
    }

    pub(super) fn at(&self, slot: Slot) -> &T {
        let slot = slot as usize;
        self.chunks[slot / CHUNK][slot % CHUNK].as_ref().expect("the slot is in use")
    }

    pub(super) fn at_mut(&mut self, slot: Slot) -> &mut T {
        self.entry(slot).as_mut().expect("the slot is in use")
    }

    /// In no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }

    /// In no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten().flatten()
    }

    fn entry(&mut self, slot: Slot) -> &mut Option<T> {
        let slot = slot as usize;
        &mut self.chunks[slot / CHUNK][slot % CHUNK]
    }
}
