//! Stores whose looks are ended when they are left alone, as a server does.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use relight_store::StoreError;
use relight_store::transfer::{Cell, CopyError, Exporter, Importer, Row, Table};

/// Rows of a page: few, so that there are many pages.
const ROWS_MAX: usize = 10;
/// Pages of the others that a look lives without being used.
const PATIENCE: u32 = 2;

/// Counts for each look how many pages the others gave since it was used.
#[derive(Debug, Default, Clone)]
pub(crate) struct Stage {
    looks: Arc<Mutex<Vec<u32>>>,
}

impl Stage {
    pub(crate) fn look<E>(&self, store: E) -> Look<E> {
        let mut looks = self
            .looks
            .lock()
            .expect("nothing panics while it is locked");
        looks.push(0);
        Look {
            store,
            number: looks.len() - 1,
            stage: self.clone(),
        }
    }

    pub(crate) fn fill<I>(&self, store: I) -> Fill<I> {
        Fill {
            store,
            stage: self.clone(),
        }
    }
}

pub(crate) struct Look<E> {
    store: E,
    number: usize,
    stage: Stage,
}

impl<E> Look<E> {
    fn use_it(&self, is_page: bool) -> Result<(), StoreError> {
        let mut looks = self
            .stage
            .looks
            .lock()
            .expect("nothing panics while it is locked");
        let unused = std::mem::take(&mut looks[self.number]);
        if is_page {
            looks.iter_mut().for_each(|unused| *unused += 1);
        }
        looks[self.number] = 0;
        if unused <= PATIENCE {
            return Ok(());
        }
        let why = format!("left alone for {unused} pages");
        Err(StoreError::Unreachable {
            place: "the look".to_owned(),
            why,
        })
    }
}

#[async_trait]
impl<E: Exporter> Exporter for Look<E> {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn count(&mut self, table: Table) -> Result<u64, StoreError> {
        self.use_it(false)?;
        self.store.count(table).await
    }

    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError> {
        self.use_it(true)?;
        let mut rows = self.store.page(table, after).await?;
        rows.truncate(ROWS_MAX);
        Ok(rows)
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.store.integrity().await
    }

    async fn touch(&mut self) -> Result<(), StoreError> {
        self.use_it(false)
    }

    async fn written_since(&mut self) -> Result<u64, StoreError> {
        self.use_it(false)?;
        self.store.written_since().await
    }
}

/// Reads itself back with an impatient look.
pub(crate) struct Fill<I> {
    store: I,
    stage: Stage,
}

#[async_trait]
impl<I: Importer> Importer for Fill<I> {
    fn place(&self) -> String {
        self.store.place()
    }

    async fn begin(&mut self, from: &str) -> Result<bool, CopyError> {
        self.store.begin(from).await
    }

    async fn newest_key(&mut self, table: Table) -> Result<Cell, CopyError> {
        self.store.newest_key(table).await
    }

    async fn write(&mut self, table: Table, rows: Vec<Row>) -> Result<(), CopyError> {
        self.store.write(table, rows).await
    }

    async fn clear(&mut self, table: Table) -> Result<(), CopyError> {
        self.store.clear(table).await
    }

    async fn read_back(&mut self) -> Result<Box<dyn Exporter>, CopyError> {
        Ok(Box::new(
            self.stage.look(Boxed(self.store.read_back().await?)),
        ))
    }

    async fn finish(&mut self) -> Result<(), CopyError> {
        self.store.finish().await
    }
}

/// A box is no exporter by itself.
struct Boxed(Box<dyn Exporter>);

#[async_trait]
impl Exporter for Boxed {
    fn place(&self) -> String {
        self.0.place()
    }

    async fn count(&mut self, table: Table) -> Result<u64, StoreError> {
        self.0.count(table).await
    }

    async fn page(&mut self, table: Table, after: &Cell) -> Result<Vec<Row>, StoreError> {
        self.0.page(table, after).await
    }

    async fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        self.0.integrity().await
    }

    async fn touch(&mut self) -> Result<(), StoreError> {
        self.0.touch().await
    }

    async fn written_since(&mut self) -> Result<u64, StoreError> {
        self.0.written_since().await
    }
}
