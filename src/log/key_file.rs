//! The text of a key file: a name, and two keys, in clear or sealed under a passphrase.
//!
//! [`Stored`] is what the text says; [`KeyFile`] is the same with its keys ready to sign. Reading the text needs
//! no passphrase, since public keys stand beside sealed seeds. No file is opened here and no randomness drawn.

use super::key::{PublicKey, SigningKey, base64, unbase64};
use super::sealed::{self, Passphrase, Wiped};

/// The longest key file that is read.
pub const MAX_KEY_FILE: usize = 65_536;
/// The longest display name in a key file.
pub const MAX_NAME: usize = 256;

const FIRST_LINE: &str = "ledger-key/1";
const FIELDS: &str =
    "no such field; there are `name`, `author` and `log`, and `-public` and `-sealed` of both";

/// Why a key file is refused. No message repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin as key files do.
    #[error("a key file begins with the line `{FIRST_LINE}`")]
    FirstLine,
    /// A line of a key file is wrong.
    #[error("line {line} of the key file: {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A line that every key file has is missing.
    #[error("the key file has no line `{field}`")]
    Missing {
        /// The line's first word.
        field: &'static str,
    },
    /// A key stands there in two forms, or its sealed form without its public key.
    #[error("the key file has a key in clear and sealed, or sealed without its public key")]
    Forms,
    /// A name that one line cannot hold.
    #[error("a display name is one line of 1 to {MAX_NAME} bytes without space around it")]
    Name,
    /// The author seed is also the log seed.
    #[error("the author key and the log key are the same")]
    SameSeeds,
    /// More bytes than any key file has.
    #[error("{size} bytes are more than a key file has")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
    /// The seeds are sealed, and no passphrase was given.
    #[error("the keys are sealed under a passphrase")]
    Sealed,
    /// The passphrase opens nothing, or something else than the public keys say.
    #[error("the passphrase is not the right one")]
    WrongPassphrase,
    /// A sealed seed is damaged or costs too much to open.
    #[error("a sealed key cannot be opened")]
    Seal(#[from] sealed::Error),
}

/// One key as a file holds it.
#[derive(Debug)]
enum Held {
    Clear(SigningKey),
    Sealed { public: PublicKey, sealed: Vec<u8> },
}

impl Held {
    fn public(&self) -> PublicKey {
        match self {
            Self::Clear(key) => key.public(),
            Self::Sealed { public, .. } => *public,
        }
    }

    fn open(&self, passphrase: Option<&Passphrase>) -> Result<SigningKey, Error> {
        let (public, sealed) = match self {
            Self::Clear(key) => return Ok(SigningKey::from_seed(key.seed())),
            Self::Sealed { public, sealed } => (public, sealed),
        };
        let seed = sealed::open(sealed, passphrase.ok_or(Error::Sealed)?).map_err(|error| match error {
            sealed::Error::WrongPassphrase => Error::WrongPassphrase,
            other => other.into(),
        })?;
        let key = SigningKey::from_seed(&seed);
        // Padding that looks right by chance opens to some other key.
        if key.public() == *public { Ok(key) } else { Err(Error::WrongPassphrase) }
    }
}

/// What a key file says, without what only its passphrase tells.
#[derive(Debug)]
pub struct Stored {
    name: String,
    author: Held,
    log: Option<Held>,
}

/// The lines of one key.
#[derive(Default)]
struct Lines {
    clear: Option<SigningKey>,
    public: Option<PublicKey>,
    sealed: Option<Vec<u8>>,
}

impl Lines {
    fn held(self) -> Result<Option<Held>, Error> {
        match (self.clear, self.public, self.sealed) {
            (None, None, None) => Ok(None),
            (Some(key), None, None) => Ok(Some(Held::Clear(key))),
            (None, Some(public), Some(sealed)) => Ok(Some(Held::Sealed { public, sealed })),
            _ => Err(Error::Forms),
        }
    }
}

impl Stored {
    /// Parses the text of a key file. Blank lines and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_KEY_FILE {
            return Err(Error::TooLarge { size: text.len() });
        }
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != FIRST_LINE) {
            return Err(Error::FirstLine);
        }
        let mut name = None;
        let (mut author, mut log) = (Lines::default(), Lines::default());
        for (index, line) in lines {
            let wrong = |what| Error::Line { line: index + 1, what };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (field, value) =
                line.split_once(' ').ok_or_else(|| wrong("a word and a value are wanted"))?;
            let (of, form) = field.split_once('-').unwrap_or((field, ""));
            let key = match of {
                "name" if form.is_empty() => {
                    if name.replace(value).is_some() {
                        return Err(wrong("the field stands here a second time"));
                    }
                    continue;
                }
                "author" => &mut author,
                "log" => &mut log,
                _ => return Err(wrong(FIELDS)),
            };
            let bytes = unbase64(value).map(Wiped::new).ok();
            let whole = || bytes.as_ref().and_then(|bytes| <[u8; 32]>::try_from(&bytes[..]).ok());
            let is_first = match form {
                "" => {
                    let seed = whole().map(Wiped::new).ok_or_else(|| wrong("not the base64 of 32 bytes"))?;
                    key.clear.replace(SigningKey::from_seed(&seed)).is_none()
                }
                "public" => {
                    let public = whole().and_then(|bytes| PublicKey::parse(&bytes).ok());
                    key.public
                        .replace(public.ok_or_else(|| wrong("not the base64 of a public key"))?)
                        .is_none()
                }
                "sealed" => {
                    let sealed = bytes.as_ref().ok_or_else(|| wrong("not base64"))?;
                    key.sealed.replace(sealed.to_vec()).is_none()
                }
                _ => return Err(wrong(FIELDS)),
            };
            if !is_first {
                return Err(wrong("the field stands here a second time"));
            }
        }
        let name = name.ok_or(Error::Missing { field: "name" })?.to_owned();
        check_name(&name)?;
        let author = author.held()?.ok_or(Error::Missing { field: "author" })?;
        let log = log.held()?;
        if log.as_ref().is_some_and(|log| log.public() == author.public()) {
            return Err(Error::SameSeeds);
        }
        Ok(Self { name, author, log })
    }

    /// Returns the display name of the keys' holder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the public half of the key that signs statements.
    pub fn author(&self) -> PublicKey {
        self.author.public()
    }

    /// Returns the public half of the key that signs tree heads.
    pub fn log(&self) -> Option<PublicKey> {
        self.log.as_ref().map(Held::public)
    }

    /// Whether a passphrase is needed before anything can be signed.
    pub const fn is_sealed(&self) -> bool {
        matches!(self.author, Held::Sealed { .. }) || matches!(self.log, Some(Held::Sealed { .. }))
    }

    /// Makes the keys ready to sign.
    pub fn open(&self, passphrase: Option<&Passphrase>) -> Result<KeyFile, Error> {
        // Opening is slow on purpose, and there are two to open.
        let (author, log) = rayon::join(
            || self.author.open(passphrase),
            || self.log.as_ref().map(|log| log.open(passphrase)).transpose(),
        );
        KeyFile::new(&self.name, author?, log?)
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = !name.is_empty() && name.len() <= MAX_NAME && name.trim() == name;
    if is_plain && !name.contains(char::is_control) { Ok(()) } else { Err(Error::Name) }
}

/// The keys of somebody who signs.
#[derive(Debug)]
pub struct KeyFile {
    name: String,
    author: SigningKey,
    log: Option<SigningKey>,
}

impl KeyFile {
    /// Puts a key file together. `log` is absent for those who do not write tree heads.
    pub fn new(name: &str, author: SigningKey, log: Option<SigningKey>) -> Result<Self, Error> {
        check_name(name)?;
        // What one key signs in one role must not count in the other.
        if log.as_ref().is_some_and(|log| log.public() == author.public()) {
            return Err(Error::SameSeeds);
        }
        Ok(Self { name: name.to_owned(), author, log })
    }

    /// Parses the text of a key file whose keys stand there in clear.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Stored::parse(text)?.open(None)
    }

    /// Returns the display name of the keys' holder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the key that signs statements.
    pub const fn author(&self) -> &SigningKey {
        &self.author
    }

    /// Returns the key that signs tree heads.
    pub const fn log(&self) -> Option<&SigningKey> {
        self.log.as_ref()
    }

    fn head(&self) -> Wiped<String> {
        let note = "# Keep this file secret. It signs for you; mode 0600.";
        // Room for everything, so that no copy of a secret is left behind where the text has grown.
        let mut text = Wiped::new(String::with_capacity(4096));
        for part in [FIRST_LINE, "\n", note, "\nname ", &self.name, "\n"] {
            text.push_str(part);
        }
        text
    }

    fn keys(&self) -> impl Iterator<Item = (&'static str, &SigningKey)> {
        [("author", Some(&self.author)), ("log", self.log.as_ref())]
            .into_iter()
            .filter_map(|(word, key)| Some((word, key?)))
    }

    /// Returns the text of the key file, with its secrets: it goes into a file of mode 0600 and nowhere else.
    pub fn to_text(&self) -> Wiped<String> {
        let mut text = self.head();
        for (word, key) in self.keys() {
            let seed = Wiped::new(base64(key.seed()));
            for part in [word, " ", &seed, "\n"] {
                text.push_str(part);
            }
        }
        text
    }

    /// Returns the text of the key file with its keys sealed; `random` fills salts and IVs.
    pub fn to_sealed_text(
        &self,
        passphrase: &Passphrase,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Wiped<String>, Error> {
        let mut text = self.head();
        for (word, key) in self.keys() {
            let (mut salt, mut iv) = ([0; 16], [0; 16]);
            random(&mut salt);
            random(&mut iv);
            let sealed = base64(&sealed::seal(key.seed(), passphrase, salt, iv)?);
            let public = base64(key.public().as_bytes());
            for part in [word, "-public ", &public, "\n", word, "-sealed ", &sealed, "\n"] {
                text.push_str(part);
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::hex;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&[byte; 32])
    }

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes().to_vec())
    }

    #[test]
    fn a_key_file_is_read_as_written() {
        for log in [None, Some(key(2))] {
            let file = KeyFile::new("Kim, Lab 3", key(1), log).unwrap();
            let text = file.to_text();
            let again = KeyFile::parse(&text).unwrap();
            assert_eq!(again.name(), "Kim, Lab 3");
            assert_eq!(again.author().public(), key(1).public());
            assert_eq!(again.log().map(SigningKey::public), file.log().map(SigningKey::public));
            assert_eq!(again.to_text(), text);
            assert_eq!(KeyFile::parse(&text.replace('\n', "\r\n")).unwrap().to_text(), text);
            assert_eq!(KeyFile::parse(text.trim_end()).unwrap().to_text(), text);
            assert!(!Stored::parse(&text).unwrap().is_sealed());
        }
    }

    #[test]
    fn a_sealed_file_tells_its_public_keys_and_opens_with_its_passphrase() {
        for log in [None, Some(key(2))] {
            let file = KeyFile::new("kim", key(1), log).unwrap();
            let mut next = 0;
            let mut random = |out: &mut [u8]| {
                next += 1;
                out.fill(next);
            };
            let text = file.to_sealed_text(&phrase("correct horse"), &mut random).unwrap();
            let log = file.log().map(SigningKey::public);
            let stored = || Stored::parse(&text).unwrap();
            assert!(stored().is_sealed());
            assert_eq!((stored().name(), stored().author(), stored().log()), ("kim", key(1).public(), log));
            let open = stored().open(Some(&phrase("correct horse"))).unwrap();
            assert_eq!(open.to_text(), file.to_text());
            assert_eq!(stored().open(Some(&phrase("wrong"))).unwrap_err(), Error::WrongPassphrase);
            assert_eq!(stored().open(Some(&phrase(""))).unwrap_err(), Error::WrongPassphrase);
            assert_eq!(stored().open(None).unwrap_err(), Error::Sealed);
            assert_eq!(KeyFile::parse(&text).unwrap_err(), Error::Sealed);
            for secret in [base64(&[1; 32]), base64(&[2; 32])] {
                assert!(!text.contains(&secret), "a seed stands in clear");
            }
            // Under the public key of somebody else nothing opens, whatever comes out.
            let swapped =
                text.replace(&base64(key(1).public().as_bytes()), &base64(key(3).public().as_bytes()));
            let opened = Stored::parse(&swapped).unwrap().open(Some(&phrase("correct horse")));
            assert_eq!(opened.unwrap_err(), Error::WrongPassphrase);
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_and_without_its_secret() {
        let (one, two) = (base64(&[1; 32]), base64(&[2; 32]));
        let public = base64(key(1).public().as_bytes());
        let short = base64(&[1; 31]);
        for (body, wanted) in [
            (format!("name a\nauthor {one}\nlogs {two}\n"), "line 4"),
            (format!("name a\nauthor {short}\n"), "line 3"),
            (format!("# a\n\nname a\nauthor {one} \n"), "line 5"),
            (format!("name a\nauthor {one}\nauthor {two}\n"), "line 4"),
            (format!("name a\nname b\nauthor {one}\n"), "line 3"),
            (format!("name a\nauthor\n{one}\n"), "line 3"),
            (format!("name a\nauthor-secret {one}\n"), "line 3"),
            (format!("name-public a\nauthor {one}\n"), "line 2"),
            (format!("name a\nauthor-sealed {one}\nauthor-sealed {one}\n"), "line 4"),
            (format!("name a\nauthor-public {}\n", base64(&[2; 32])), "line 3"),
            (format!("name a\nauthor {one}\nauthor-public {public}\n"), "in clear and sealed"),
            (format!("name a\nauthor-sealed {one}\n"), "without its public key"),
            (format!("name a\nauthor-public {public}\n"), "without its public key"),
            (format!("author {one}\n"), "`name`"),
            ("name a\n".to_owned(), "`author`"),
            (format!("name  a\nauthor {one}\n"), "display name"),
            (format!("name a\u{7}\nauthor {one}\n"), "display name"),
            (format!("name {}\nauthor {one}\n", "a".repeat(MAX_NAME + 1)), "display name"),
            (format!("name a\nauthor {one}\nlog {one}\n"), "same"),
        ] {
            let error = Stored::parse(&format!("ledger-key/1\n{body}")).unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(said.contains(wanted), "{body}: {said}");
            assert!(!said.contains(&one[..8]), "{said}");
        }
        for text in ["", "ledger-key/2\n", "\nledger-key/1\n", " ledger-key/1\n", "ledger-key/1x\n"] {
            assert_eq!(KeyFile::parse(text).unwrap_err(), Error::FirstLine, "{text:?}");
        }
        let large = format!("ledger-key/1\n#{}\nname a\nauthor {one}\n", " ".repeat(MAX_KEY_FILE));
        assert!(matches!(KeyFile::parse(&large), Err(Error::TooLarge { .. })));
        let damaged = format!("ledger-key/1\nname a\nauthor-public {public}\nauthor-sealed {one}\n");
        let opened = Stored::parse(&damaged).unwrap().open(Some(&phrase("a")));
        assert_eq!(opened.unwrap_err(), Error::Seal(sealed::Error::Form));
    }

    #[test]
    fn debug_shows_no_seed() {
        let seed: [u8; 32] = std::array::from_fn(|at| 0xa0 + at as u8);
        let file = KeyFile::new("a", SigningKey::from_seed(&seed), Some(key(2))).unwrap();
        let text = file.to_text();
        let shown = format!("{file:?} {file:#?} {:?}", Stored::parse(&text)).to_lowercase();
        for secret in [hex(&seed[..3]), base64(&seed)[..4].to_lowercase(), "160, 161".into(), "160,\n".into()]
        {
            assert!(!shown.contains(&secret), "{shown}");
        }
    }
}
