//! Results in a table of comma- or tab-separated values, of which metrics are named by their place.
//!
//! The first row names the columns. `COLUMN` is a number of a table with one row; `ROW.COLUMN` of a larger one,
//! where ROW is a row's first value or its number from 0; and in a table of two columns `ROW` alone will do.

use csv::{ReaderBuilder, StringRecord};

use super::json::{Keep, parse};
use super::{Error, Json};

/// Values of a table.
const MAX_CELLS: usize = 1_000_000;

/// Whether a file is a table, by its name.
pub(super) fn is(name: &str) -> bool {
    delimiter(name).is_some()
}

fn delimiter(name: &str) -> Option<u8> {
    match super::extension(name)?.as_str() {
        "csv" => Some(b','),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}

/// A table that was read.
pub(super) struct Table {
    columns: StringRecord,
    rows: Vec<StringRecord>,
}

/// Reads a table. Rows of another length than the first are refused, and so are two columns of one name.
pub(super) fn read(bytes: &[u8], name: &str) -> Result<Table, Error> {
    let fail = |what: String| Error::Table { name: name.to_owned(), what };
    let delimiter = delimiter(name).unwrap_or(b',');
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let columns = reader.headers().map_err(|error| fail(error.to_string()))?.clone();
    let mut names: Vec<&str> = columns.iter().collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Duplicate { name: name.to_owned(), key: pair[0].to_owned() });
    }
    let (mut rows, mut cells) = (Vec::new(), 0);
    for row in reader.records() {
        let row = row.map_err(|error| fail(error.to_string()))?;
        cells += row.len();
        if cells > MAX_CELLS {
            return Err(Error::TooMany { name: name.to_owned(), what: "values", limit: MAX_CELLS });
        }
        rows.push(row);
    }
    Ok(Table { columns, rows })
}

impl Table {
    /// Returns the text of the number at a path.
    pub(super) fn at(&self, path: &str) -> Result<String, Error> {
        let text = self.cell(path)?.trim();
        // A number of a table is one of JSON, so that a metric has one form wherever it comes from.
        match parse(text.as_bytes(), "value", Keep::All) {
            Ok(Json::Number(text)) => Ok(text.into()),
            _ => match text {
                "nan" | "NAN" => Ok("NaN".to_owned()),
                "inf" | "Inf" | "+inf" => Ok("Infinity".to_owned()),
                "-inf" | "-Inf" => Ok("-Infinity".to_owned()),
                _ => Err(Error::NotANumber { path: path.to_owned(), found: "a text" }),
            },
        }
    }

    fn cell(&self, path: &str) -> Result<&str, Error> {
        let missing = |step: &str| Error::NoSuchPath { path: path.to_owned(), step: step.to_owned() };
        let column = |name: &str| self.columns.iter().position(|column| column == name);
        let of = |row: &StringRecord, at: usize| row.get(at).map(str::len);
        if let (Some(at), [row]) = (column(path), &self.rows[..])
            && of(row, at).is_some()
        {
            return Ok(&row[at]);
        }
        if self.columns.len() == 2
            && let Some(row) = self.row(path)?
        {
            return Ok(&row[1]);
        }
        // Both the row's value and the column's name may hold dots; the first split that fits is meant.
        for (dot, _) in path.match_indices('.') {
            let (row, name) = (&path[..dot], &path[dot + 1..]);
            if let (Some(row), Some(at)) = (self.row(row)?, column(name)) {
                return Ok(&row[at]);
            }
        }
        let step = path.split('.').next().unwrap_or(path);
        Err(missing(if column(path).is_some() { "row" } else { step }))
    }

    /// Finds the row whose first value this is, or else the one of this number.
    fn row(&self, name: &str) -> Result<Option<&StringRecord>, Error> {
        let mut named = self.rows.iter().filter(|row| row.get(0) == Some(name));
        match (named.next(), named.next()) {
            (Some(_), Some(_)) => Err(Error::TwoRows { row: name.to_owned() }),
            (Some(row), None) => Ok(Some(row)),
            (None, _) => Ok(name.parse().ok().and_then(|at: usize| self.rows.get(at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, path: &str) -> Result<String, String> {
        read(text.as_bytes(), "r.csv").and_then(|table| table.at(path)).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_found_by_row_and_column() {
        let one = "model,accuracy,loss\nm,0.50,nan\n";
        assert_eq!(at(one, "accuracy").as_deref(), Ok("0.50"));
        assert_eq!(at(one, "loss").as_deref(), Ok("NaN"));
        assert_eq!(at(one, "m.accuracy").as_deref(), Ok("0.50"));
        let long = "metric,value\nacc.norm,1e-3\nacc,0.25\n";
        assert_eq!(at(long, "acc").as_deref(), Ok("0.25"));
        assert_eq!(at(long, "acc.norm").as_deref(), Ok("1e-3"));
        let many = "split,acc\ndev,0.1\ntest,\"0.2\"\n";
        assert_eq!(at(many, "test.acc").as_deref(), Ok("0.2"));
        assert_eq!(at(many, "0.acc").as_deref(), Ok("0.1"));
    }

    #[test]
    fn what_is_not_one_number_is_refused() {
        let many = "split,acc,note\ndev,0.1,x\ntest,0.2,y\n";
        assert_eq!(at(many, "acc").unwrap_err(), "`acc` leads to nothing: there is no `row`");
        assert_eq!(at(many, "x.acc").unwrap_err(), "`x.acc` leads to nothing: there is no `x`");
        assert_eq!(at(many, "test.note").unwrap_err(), "`test.note` leads to a text, not to a number");
        assert!(at("a,b\nx,1\nx,2\n", "x.b").is_err(), "two rows of one name");
        assert!(at("a,a\n1,2\n", "a").is_err(), "two columns of one name");
        assert!(at("a,b\n1\n", "a").is_err(), "a short row");
        assert!(at("a,b\n1,2,3\n", "a").is_err(), "a long row");
        assert!(read(b"a,b\n\xff,1\n", "r.csv").is_err(), "no text");
    }
}
