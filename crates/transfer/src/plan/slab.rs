//! A collection of values by number; the number of a removed value is reused.

/// Values by number; the number of a removed value is reused.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Inserts a value and returns its number.
    pub fn insert(&mut self, thing: T) -> usize {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index)
        {
            *slot = Some(thing);
            return index;
        }
        self.slots.push(Some(thing));
        self.slots.len() - 1
    }

    /// Returns the value of this number.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// Returns the value of this number.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.as_ref()
    }

    /// Removes and returns the value of this number.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let thing = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        Some(thing)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Iterates over all values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Iterates over the numbers in use.
    pub fn indexes(&self) -> impl Iterator<Item = usize> + '_ {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| slot.as_ref().map(|_| index))
    }
}
