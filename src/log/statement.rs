//! Statements: the log's leaves, each one signed transaction of one or more claims by one author.
//!
//! A statement is a `COSE_Sign1` (RFC 9052) in the manner of SCITT (RFC 9943), in exactly one byte form. This
//! file knows the envelope. Kinds and facts stay uninterpreted here, so that those of newer rules can be
//! carried and checked; what they mean is the fold's business.

use std::borrow::Cow;

use crate::codec::{self, Reader, Writer};
use crate::id::{self, ClaimRef, HolderId, KeyId, LedgerId, ObjectId, Sha256, StatementId, TreeHash};

use super::key::{self, PublicKey, SigningKey};

/// The most bytes of a statement: an entry's length in a tile bundle is 16 bits.
pub const MAX_STATEMENT: usize = 65_535;
/// The most links of a statement, over all claims.
pub const MAX_LINKS: usize = 1_000;
/// Content type in every protected header.
pub const CONTENT_TYPE: &str = "application/vnd.lineage-ledger.statement+cbor";

const COSE_SIGN1: u64 = 18;
const ALG: i64 = 1;
const EDDSA: i64 = -8;
const TYPE: i64 = 3;
const KID: i64 = 4;
const CWT: i64 = 15;
const ISS: i64 = 1;
const SUB: i64 = 2;
const IAT: i64 = 6;

/// Why bytes are not a statement, or a statement cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not in the one byte form.
    #[error("not a statement in its one byte form")]
    Encoding(#[from] codec::Error),
    /// A header or field that the format excludes.
    #[error("{0}")]
    Form(&'static str),
    /// Over [`MAX_STATEMENT`].
    #[error("{size} bytes are more than the {MAX_STATEMENT} that a statement may have")]
    TooLarge {
        /// Bytes given.
        size: usize,
    },
    /// Over [`MAX_LINKS`].
    #[error("{links} links are more than the {MAX_LINKS} that a statement may have")]
    TooManyLinks {
        /// Links given.
        links: usize,
    },
    /// The signature is not the key's over these bytes.
    #[error("the signature is not by key {0}")]
    Signature(KeyId, #[source] key::Error),
}

/// A head of the log that the author had verified when signing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// Statements under that head.
    pub size: u64,
    /// Its root.
    pub root: TreeHash,
}

/// One link of a claim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link<'a> {
    /// The role's word.
    pub role: Cow<'a, str>,
    /// The kind's word.
    pub kind: Cow<'a, str>,
    /// The object.
    pub id: ObjectId,
}

/// "Object O of kind K, linked to ..., with these facts."
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim<'a> {
    /// The kind's word.
    pub kind: Cow<'a, str>,
    /// The object.
    pub object: ObjectId,
    /// SHA-256 of the object's bytes.
    pub sha256: Sha256,
    /// Length of the object in bytes.
    pub size: u64,
    /// Links, strictly ascending by role, kind and id.
    pub links: Vec<Link<'a>>,
    /// The facts, one CBOR map.
    pub facts: Cow<'a, [u8]>,
    /// The claim that a decision replaces.
    pub prev: Option<ClaimRef>,
}

/// What a statement says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload<'a> {
    /// The ledger; absent in its first statement, whose leaf hash it is.
    pub ledger: Option<LedgerId>,
    /// The head that the author knew; absent in the first statement.
    pub seen: Option<Seen>,
    /// One claim at least.
    pub claims: Vec<Claim<'a>>,
    /// Names a request, so that repeating it does not repeat the act.
    pub req: Option<[u8; 16]>,
}

/// A statement as read: everything borrows from its bytes.
#[derive(Clone, Debug)]
pub struct Statement<'a> {
    /// The exact bytes of the leaf.
    pub bytes: &'a [u8],
    /// Its leaf hash.
    pub id: StatementId,
    /// Thumbprint of the signing key.
    pub kid: KeyId,
    /// The holder who says it.
    pub iss: HolderId,
    /// Typed id of the first claim.
    pub sub: &'a str,
    /// Seconds since 1970 by the author's clock: a claim like any other.
    pub iat: u64,
    /// What it says.
    pub payload: Payload<'a>,
    /// The payload's bytes, over which the signature runs.
    pub payload_bytes: &'a [u8],
    protected: &'a [u8],
    signature: [u8; 64],
}

impl<'a> Statement<'a> {
    /// Reads a statement. The signature is not checked: that takes a key, see [`Self::verify`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_STATEMENT {
            return Err(Error::TooLarge { size: bytes.len() });
        }
        let mut r = Reader::new(bytes);
        r.tag(COSE_SIGN1)?;
        r.array_len(4, "the four items of a COSE_Sign1")?;
        let protected = r.bytes()?;
        let mut unprotected = r.map()?;
        if r.label(&mut unprotected)?.is_some() {
            // It is not signed, so anything in it would give one statement many leaf hashes.
            return Err(Error::Form("the unprotected header is not empty"));
        }
        let payload_bytes = r.bytes()?;
        let signature = r.array_of()?;
        r.end()?;
        let header = Header::parse(protected)?;
        let payload = parse_payload(payload_bytes)?;
        let first = payload.claims.first().ok_or(Error::Form("a statement has one claim at least"))?;
        let named = header.sub.split_once(':').map(|(_, hex)| ObjectId::from_hex(hex));
        let names_first = named == Some(Ok(first.object));
        if !names_first {
            return Err(Error::Form("`sub` is not the typed id of the first claim"));
        }
        Ok(Self {
            bytes,
            id: id::statement_id(bytes),
            kid: header.kid,
            iss: header.iss,
            sub: header.sub,
            iat: header.iat,
            payload,
            payload_bytes,
            protected,
            signature,
        })
    }

    /// Checks the signature against a key, whose thumbprint must be the statement's `kid`.
    pub fn verify(&self, key: &PublicKey) -> Result<(), Error> {
        if key.thumbprint() != self.kid {
            return Err(Error::Form("the key is not the one that `kid` names"));
        }
        let message = key::sig_structure(self.protected, self.payload_bytes);
        key.verify(&message, &self.signature).map_err(|source| Error::Signature(self.kid, source))
    }
}

struct Header<'a> {
    kid: KeyId,
    iss: HolderId,
    sub: &'a str,
    iat: u64,
}

impl<'a> Header<'a> {
    fn parse(protected: &'a [u8]) -> Result<Self, Error> {
        const LABELS: Error =
            Error::Form("the protected header does not hold exactly alg, type, kid and claims");
        let mut r = Reader::new(protected);
        let mut map = r.map()?;
        let mut expect = |r: &mut Reader<'a>, label| match r.label(&mut map) {
            Ok(Some(found)) if found == label => Ok(()),
            Ok(_) => Err(LABELS),
            Err(error) => Err(error.into()),
        };
        expect(&mut r, ALG)?;
        if r.int()? != EDDSA {
            return Err(Error::Form("the algorithm is not EdDSA (-8)"));
        }
        expect(&mut r, TYPE)?;
        if r.text()? != CONTENT_TYPE {
            return Err(Error::Form("the content type is not that of a statement"));
        }
        expect(&mut r, KID)?;
        let kid = KeyId::from_bytes(r.array_of()?);
        expect(&mut r, CWT)?;
        let mut claims = r.map()?;
        let mut inner = |r: &mut Reader<'a>, label| match r.label(&mut claims) {
            Ok(Some(found)) if found == label => Ok(()),
            Ok(_) => Err(Error::Form("the token claims are not exactly iss, sub and iat")),
            Err(error) => Err(error.into()),
        };
        inner(&mut r, ISS)?;
        let iss = HolderId::parse(r.text()?).map_err(|_| Error::Form("`iss` is not a holder id"))?;
        inner(&mut r, SUB)?;
        let sub = r.text()?;
        inner(&mut r, IAT)?;
        let iat = r.uint()?;
        if r.label(&mut claims)?.is_some() {
            return Err(Error::Form("the token claims are not exactly iss, sub and iat"));
        }
        if r.label(&mut map)?.is_some() {
            return Err(LABELS);
        }
        r.end()?;
        Ok(Self { kid, iss, sub, iat })
    }
}

fn parse_payload(bytes: &[u8]) -> Result<Payload<'_>, Error> {
    let mut payload = Payload { ledger: None, seen: None, claims: Vec::new(), req: None };
    let mut version = None;
    let mut links = 0;
    let mut r = Reader::new(bytes);
    let mut map = r.map()?;
    while let Some(key) = r.key(&mut map)? {
        match key {
            "v" => version = Some(r.uint()?),
            "req" => payload.req = Some(r.array_of()?),
            "seen" => {
                r.array_len(2, "a size and a root")?;
                payload.seen = Some(Seen { size: r.uint()?, root: TreeHash::from_bytes(r.array_of()?) });
            }
            "claims" => {
                let count = r.array()?;
                if count > u64::from(u16::MAX) {
                    return Err(Error::Form("more claims than a position can count"));
                }
                for _ in 0..count {
                    payload.claims.push(parse_claim(&mut r, &mut links)?);
                }
            }
            "ledger" => payload.ledger = Some(LedgerId::from_bytes(r.array_of()?)),
            _ => return Err(Error::Form("the payload has a field that it may not have")),
        }
    }
    r.end()?;
    if version != Some(1) {
        return Err(Error::Form("the payload is not of version 1"));
    }
    if payload.seen.is_some() != payload.ledger.is_some() {
        return Err(Error::Form("`ledger` and `seen` stand together or not at all"));
    }
    if payload.seen.is_some_and(|seen| seen.size == 0) {
        return Err(Error::Form("`seen` is a head of size 1 at least"));
    }
    Ok(payload)
}

fn parse_claim<'a>(r: &mut Reader<'a>, links_so_far: &mut usize) -> Result<Claim<'a>, Error> {
    const ABSENT: Error = Error::Form("a claim lacks a field");
    let (mut kind, mut object, mut sha256, mut size, mut links, mut facts, mut prev) =
        (None, None, None, None, None, None, None);
    let mut map = r.map()?;
    while let Some(key) = r.key(&mut map)? {
        match key {
            "kind" => kind = Some(Cow::Borrowed(r.text()?)),
            "prev" => {
                r.array_len(2, "a statement and a position")?;
                let statement = StatementId::from_bytes(r.array_of()?);
                let position =
                    u16::try_from(r.uint()?).map_err(|_| Error::Form("`prev` has no such position"))?;
                prev = Some(ClaimRef { statement, position });
            }
            "size" => size = Some(r.uint()?),
            "facts" => {
                let start = r.clone().map();
                start?;
                facts = Some(Cow::Borrowed(r.skip()?));
            }
            "links" => links = Some(parse_links(r, links_so_far)?),
            "object" => object = Some(ObjectId::from_bytes(r.array_of()?)),
            "sha256" => sha256 = Some(Sha256::from_bytes(r.array_of()?)),
            _ => return Err(Error::Form("a claim has a field that it may not have")),
        }
    }
    Ok(Claim {
        kind: kind.ok_or(ABSENT)?,
        object: object.ok_or(ABSENT)?,
        sha256: sha256.ok_or(ABSENT)?,
        size: size.ok_or(ABSENT)?,
        links: links.ok_or(ABSENT)?,
        facts: facts.ok_or(ABSENT)?,
        prev,
    })
}

fn parse_links<'a>(r: &mut Reader<'a>, so_far: &mut usize) -> Result<Vec<Link<'a>>, Error> {
    let count = r.array()? as usize;
    *so_far += count;
    if *so_far > MAX_LINKS {
        return Err(Error::TooManyLinks { links: *so_far });
    }
    let mut links: Vec<Link<'a>> = Vec::with_capacity(count);
    for _ in 0..count {
        r.array_len(3, "a role, a kind and an id")?;
        let link = Link {
            role: Cow::Borrowed(r.text()?),
            kind: Cow::Borrowed(r.text()?),
            id: ObjectId::from_bytes(r.array_of()?),
        };
        if links.last().is_some_and(|last| *last >= link) {
            return Err(Error::Form("links are not in strictly ascending order"));
        }
        links.push(link);
    }
    Ok(links)
}

impl Payload<'_> {
    /// Encodes the payload in its one form. Links must be strictly ascending already.
    pub fn encode(&self) -> Vec<u8> {
        let fields = 2
            + usize::from(self.req.is_some())
            + usize::from(self.seen.is_some())
            + usize::from(self.ledger.is_some());
        let mut w = Writer::new();
        w.map(fields).text("v").uint(1);
        if let Some(req) = &self.req {
            w.text("req").byte_string(req);
        }
        if let Some(seen) = &self.seen {
            w.text("seen").array(2).uint(seen.size).byte_string(seen.root.as_bytes());
        }
        w.text("claims").array(self.claims.len());
        for claim in &self.claims {
            w.map(6 + usize::from(claim.prev.is_some())).text("kind").text(&claim.kind);
            if let Some(prev) = &claim.prev {
                w.text("prev").array(2).byte_string(prev.statement.as_bytes()).uint(u64::from(prev.position));
            }
            w.text("size").uint(claim.size).text("facts").raw(&claim.facts);
            w.text("links").array(claim.links.len());
            for link in &claim.links {
                w.array(3).text(&link.role).text(&link.kind).byte_string(link.id.as_bytes());
            }
            w.text("object").byte_string(claim.object.as_bytes());
            w.text("sha256").byte_string(claim.sha256.as_bytes());
        }
        if let Some(ledger) = &self.ledger {
            w.text("ledger").byte_string(ledger.as_bytes());
        }
        w.finish()
    }
}

/// Signs a payload. `prefix` is the id prefix of the first claim's kind, `iat` seconds since 1970.
pub fn sign(
    payload: &Payload<'_>,
    prefix: &str,
    iss: HolderId,
    iat: u64,
    key: &SigningKey,
) -> Result<Vec<u8>, Error> {
    let first = payload.claims.first().ok_or(Error::Form("a statement has one claim at least"))?;
    let links = payload.claims.iter().map(|claim| claim.links.len()).sum();
    if links > MAX_LINKS {
        return Err(Error::TooManyLinks { links });
    }
    let mut header = Writer::new();
    header.map(4).int(ALG).int(EDDSA).int(TYPE).text(CONTENT_TYPE);
    header.int(KID).byte_string(key.public().thumbprint().as_bytes());
    header.int(CWT).map(3).int(ISS).text(&iss.to_string());
    header.int(SUB).text(&format!("{prefix}:{}", first.object)).int(IAT).uint(iat);
    let protected = header.finish();
    let payload = payload.encode();
    let signature = key.sign(&key::sig_structure(&protected, &payload));
    let mut w = Writer::new();
    w.tag(COSE_SIGN1).array(4).byte_string(&protected).map(0).byte_string(&payload).byte_string(&signature);
    let bytes = w.finish();
    if bytes.len() > MAX_STATEMENT {
        return Err(Error::TooLarge { size: bytes.len() });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload() -> Payload<'static> {
        Payload {
            ledger: Some(LedgerId::from_bytes([9; 32])),
            seen: Some(Seen { size: 1, root: TreeHash::from_bytes([9; 32]) }),
            claims: vec![Claim {
                kind: "plan".into(),
                object: ObjectId::from_bytes([4; 32]),
                sha256: id::sha256(b"abc"),
                size: 3,
                links: vec![Link {
                    role: "config".into(),
                    kind: "config".into(),
                    id: ObjectId::from_bytes([5; 32]),
                }],
                facts: Cow::Borrowed(&[0xa0]),
                prev: Some(ClaimRef { statement: StatementId::from_bytes([6; 32]), position: 1 }),
            }],
            req: Some([7; 16]),
        }
    }

    fn signed() -> (SigningKey, Vec<u8>) {
        let key = SigningKey::from_seed(&[3; 32]);
        let iss = HolderId::of_first_key(key.public().thumbprint());
        let bytes = sign(&payload(), "run", iss, 1_764_500_000, &key).unwrap();
        (key, bytes)
    }

    #[test]
    fn a_statement_is_read_as_it_was_signed() {
        let (key, bytes) = signed();
        let statement = Statement::parse(&bytes).unwrap();
        assert_eq!(statement.payload, payload());
        assert_eq!(statement.iat, 1_764_500_000);
        assert_eq!(statement.sub, format!("run:{}", "04".repeat(32)));
        codec::check(statement.payload_bytes).unwrap();
        statement.verify(&key.public()).unwrap();
        let other = SigningKey::from_seed(&[4; 32]);
        assert!(statement.verify(&other.public()).is_err());
    }

    #[test]
    fn any_flipped_bit_is_refused_by_form_or_by_signature() {
        let (key, bytes) = signed();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut edited = bytes.clone();
                edited[at] ^= 1 << bit;
                let accepted =
                    Statement::parse(&edited).is_ok_and(|statement| statement.verify(&key.public()).is_ok());
                assert!(!accepted, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn an_unsigned_header_gives_no_second_form() {
        let (_, bytes) = signed();
        // The empty unprotected map stands right behind the protected bytes.
        let protected_len = usize::from(bytes[3]);
        assert_eq!(bytes[2], 0x58, "protected header with a one-byte length");
        let at = 4 + protected_len;
        assert_eq!(bytes[at], 0xa0);
        let mut edited = bytes.clone();
        edited.splice(at..=at, [0xa1, 0x04, 0x41, 0x00]);
        assert!(matches!(Statement::parse(&edited), Err(Error::Form(_))));
        let mut trailing = bytes;
        trailing.push(0);
        assert!(Statement::parse(&trailing).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_when_it_is_made() {
        let key = SigningKey::from_seed(&[3; 32]);
        let iss = HolderId::of_first_key(key.public().thumbprint());
        let mut many = payload();
        many.claims[0].links = (0..=MAX_LINKS as u32)
            .map(|n| {
                let mut id = [0; 32];
                id[..4].copy_from_slice(&n.to_be_bytes());
                Link { role: "data".into(), kind: "dataset".into(), id: ObjectId::from_bytes(id) }
            })
            .collect();
        assert!(matches!(sign(&many, "run", iss, 0, &key), Err(Error::TooManyLinks { links: 1001 })));
        let mut large = payload();
        large.claims[0].facts =
            codec::encode(&std::collections::BTreeMap::from([("x", "y".repeat(70_000))])).unwrap().into();
        assert!(matches!(sign(&large, "run", iss, 0, &key), Err(Error::TooLarge { .. })));
    }
}
