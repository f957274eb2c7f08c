//! The SQL of the embedded engine, generated from the table definitions.

use rusqlite::Connection;

use crate::table::{self, Table};

/// The file format (`user_version`); a later format gets another number and a migration.
pub(crate) const FORMAT: i64 = 1;
/// "dues" in ASCII (`application_id`): distinguishes our files from other SQLite files.
pub(crate) const APPLICATION: i64 = 0x6475_6573;

/// The statements that create a new file's schema.
pub(crate) fn create() -> String {
    let mut sql = String::from(
        "CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, tbl INTEGER NOT NULL, pk \
            TEXT NOT NULL, sk TEXT NOT NULL, old BLOB, new BLOB);
         CREATE TABLE IF NOT EXISTS stream_records (seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT \
         NULL, partition_key TEXT NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL);
         CREATE INDEX IF NOT EXISTS stream_records_by_stream ON stream_records (stream, seq);
         CREATE TABLE IF NOT EXISTS checkpoints (consumer TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER \
         NOT NULL, PRIMARY KEY (consumer, stream)) WITHOUT ROWID;\n",
    );
    for table in table::EMBEDDED {
        let columns: String = (0..table.indexes.len()).map(|n| format!(", p{n}, s{n}")).collect();
        sql += &format!(
            "CREATE TABLE IF NOT EXISTS {0} (id INTEGER PRIMARY KEY, pk TEXT NOT NULL, sk TEXT NOT \
                NULL{columns}, item BLOB NOT NULL);
             CREATE UNIQUE INDEX IF NOT EXISTS {1} ON {0} (pk, sk);\n",
            quoted(table.name),
            quoted(&format!("{}/key", table.name)),
        );
        for (n, index) in table.indexes.iter().enumerate() {
            let (sort, sorted) = if index.sort.is_some() {
                (format!(", s{n}"), format!(" AND s{n} IS NOT NULL"))
            } else {
                (String::new(), String::new())
            };
            // An item without the index's key is not in the index.
            sql += &format!(
                "CREATE INDEX IF NOT EXISTS {} ON {} (p{n}{sort}) WHERE p{n} IS NOT NULL{sorted};\n",
                quoted(&format!("{}/{}", table.name, index.name)),
                quoted(table.name)
            );
        }
    }
    sql
}

/// The statements that add the columns of indexes which an earlier version did not have. Rows from before
/// lack the indexed attributes too, so the new columns are right when they are empty. The indexes themselves
/// are in [`create`].
pub(crate) fn add_columns(db: &Connection) -> rusqlite::Result<String> {
    let mut known = db.prepare("SELECT name FROM pragma_table_info(?)")?;
    let mut sql = String::new();
    for table in table::EMBEDDED {
        let columns: Vec<String> =
            known.query_map([table.name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if columns.is_empty() {
            continue; // `create` makes the whole table.
        }
        let wanted = (0..table.indexes.len()).flat_map(|n| [format!("p{n}"), format!("s{n}")]);
        for column in wanted.filter(|column| !columns.contains(column)) {
            sql += &format!("ALTER TABLE {} ADD COLUMN {column};\n", quoted(table.name));
        }
    }
    Ok(sql)
}

/// The number of tables in a complete file: ours, the change log, the streams, the checkpoints, and SQLite's
/// own counter.
pub(crate) fn tables() -> usize {
    table::EMBEDDED.len() + 4
}

/// The statements of one table.
#[derive(Debug)]
pub(crate) struct Statements {
    /// Parameters (pk, sk); returns id, item.
    pub(crate) find: String,
    /// Parameters pk, sk, p0, s0 …, item.
    pub(crate) insert: String,
    /// One statement for each set of indexes with changed keys (a bit mask). Parameters: their p, s …, then
    /// item, id. SQLite rewrites the entries of every index that an UPDATE names, changed or not, so each
    /// statement names only those that changed.
    pub(crate) update: Vec<String>,
    /// Parameter id.
    pub(crate) delete: String,
}

impl Statements {
    pub(crate) fn of(table: &Table) -> Self {
        let name = quoted(table.name);
        let count = table.indexes.len();
        let columns: String = (0..count).map(|n| format!(", p{n}, s{n}")).collect();
        let places = ", ?".repeat(count * 2);
        let update = |mask: usize| {
            let sets: String = (0..count)
                .filter(|n| mask & (1 << n) != 0)
                .map(|n| format!("p{n} = ?, s{n} = ?, "))
                .collect();
            format!("UPDATE {name} SET {sets}item = ? WHERE id = ?")
        };
        Self {
            find: format!("SELECT id, item FROM {name} WHERE pk = ? AND sk = ?"),
            insert: format!(
                "INSERT INTO {name} (pk, sk{columns}, item) VALUES (?, ?{places}, ?) ON CONFLICT (pk, sk) DO \
                    NOTHING"
            ),
            update: (0..1 << count).map(update).collect(),
            delete: format!("DELETE FROM {name} WHERE id = ?"),
        }
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
