//! A collection of values by id; the id of a removed value is reused.

use std::marker::PhantomData;

use super::id::Id;

/// Values by id; the id of a removed value is reused.
#[derive(Debug)]
pub(crate) struct Slab<I, T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    ids: PhantomData<I>,
}

impl<I, T> Default for Slab<I, T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            ids: PhantomData,
        }
    }
}

impl<I: Id, T> Slab<I, T> {
    /// Inserts a value and returns its id.
    pub(crate) fn insert(&mut self, thing: T) -> I {
        self.insert_with(|_| thing)
    }

    /// Inserts the value that `make` returns for the id it gets.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(I) -> T) -> I {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index)
        {
            let id = I::of_index(index);
            *slot = Some(make(id));
            return id;
        }
        let id = I::of_index(self.slots.len());
        self.slots.push(Some(make(id)));
        id
    }

    /// Returns the value of this id.
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    /// Returns the value of this id.
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        self.slots.get(id.index())?.as_ref()
    }

    /// Removes and returns the value of this id.
    pub(crate) fn remove(&mut self, id: I) -> Option<T> {
        let thing = self.slots.get_mut(id.index())?.take()?;
        self.free.push(id.index());
        Some(thing)
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there are no values.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Iterates over the ids in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + '_ {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| slot.as_ref().map(|_| I::of_index(index)))
    }
}
