// Verifier checks a log that was written as C2SP tlog-tiles, with none of the code that wrote it: the hashing
// and the signatures are those of Go's own checksum database client.
//
//	apt-get install golang-go golang-golang-x-mod-dev
//	GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= go build -o verifier main.go
//	./verifier DIR VKEYS [-old NOTE [-consistency FILE]] [-proof FILE -entry FILE]
//	           [-statements [-receipt FILE -key HEX]...]
//
// DIR holds the file checkpoint and the directory tile; it is - where there is no log at hand and the proofs
// must do without. VKEYS is a file with one verifier key a line, or that
// text itself; all keys have the log's name, and a tree head needs one of them.
//
//	-old NOTE       an earlier signed tree head, of which the log must be a continuation
//	-consistency FILE  what C2SP witnesses take: the size of the head in NOTE, a proof, and the head that it leads to
//	-proof FILE     a .tlog-proof file, which must prove the bytes of the file after -entry to be in its log
//	-statements     every entry must begin as a tagged COSE_Sign1 message does
//	-receipt FILE   a receipt signature of the log's present root, or a head file of the log; the 32-byte key
//	                after the -key in the same place must have signed it (a lone -key counts for all)
//
// A tile may be missing where the full tile that replaced it is there. Tiles that the size does not call for
// are compared as far as the size reaches; names under tile that no tile can have are refused.
//
// Prints "ok size=N root=BASE64 entries=N tiles=N", or "ok" without a log, and exits with 0, or says why not and exits with 1; wrong
// usage exits with 2.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const tileWidth = 256

// head is a tree head whose signature has been checked.
type head struct {
	size int64
	root tlog.Hash
}

// signers are the keys of one log.
type signers struct {
	origin string
	keys   []note.Verifier
}

func readSigners(arg string) (signers, error) {
	text := arg
	if file, err := os.ReadFile(arg); err == nil {
		text = string(file)
	}
	var s signers
	for _, vkey := range strings.Fields(text) {
		key, err := note.NewVerifier(vkey)
		if err != nil {
			return s, fmt.Errorf("verifier key %q: %w", vkey, err)
		}
		if s.origin != "" && s.origin != key.Name() {
			return s, fmt.Errorf("verifier keys of two logs, %s and %s", s.origin, key.Name())
		}
		s.origin = key.Name()
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return s, errors.New("no verifier key")
	}
	return s, nil
}

// open checks the signatures of a note and reads its three lines in their one form.
func (s signers) open(text []byte) (head, error) {
	var h head
	opened, err := note.Open(text, note.VerifierList(s.keys...))
	if err != nil {
		return h, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return h, errors.New("a tree head has three lines")
	}
	if lines[0] != s.origin {
		return h, fmt.Errorf("origin is %q, not %q", lines[0], s.origin)
	}
	h.size, err = strconv.ParseInt(lines[1], 10, 64)
	if err != nil || h.size < 0 {
		return h, fmt.Errorf("bad size %q", lines[1])
	}
	h.root, err = tlog.ParseHash(lines[2])
	if err != nil {
		return h, fmt.Errorf("bad root %q", lines[2])
	}
	// Both parsers are laxer than the format; what was signed must be what would be written.
	if again := fmt.Sprintf("%s\n%d\n%v\n", s.origin, h.size, h.root); again != opened.Text {
		return h, errors.New("size or root is not in its one form")
	}
	if empty := tlog.Hash(sha256.Sum256(nil)); h.size == 0 && h.root != empty {
		return h, errors.New("a log without entries has another root")
	}
	return h, nil
}

// forest holds for each level of tiles all hashes that the entries give: forest[l][i] stands for 256^l leaves.
type forest [][]tlog.Hash

// perfect reduces a power of two of neighbours to the node above them.
func perfect(row []tlog.Hash) tlog.Hash {
	if len(row) == 1 {
		return row[0]
	}
	half := len(row) / 2
	return tlog.NodeHash(perfect(row[:half]), perfect(row[half:]))
}

func plant(leaves []tlog.Hash) forest {
	f := forest{leaves}
	for row := leaves; len(row) >= tileWidth; {
		var above []tlog.Hash
		for ; len(row) >= tileWidth; row = row[tileWidth:] {
			above = append(above, perfect(row[:tileWidth]))
		}
		f = append(f, above)
		row = above
	}
	return f
}

// ReadHashes lets the tlog package compute roots and proofs over the forest.
func (f forest) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		tall, low := level/8, uint(level%8)
		from, to := n<<low, (n+1)<<low
		if tall >= len(f) || to > int64(len(f[tall])) {
			return nil, fmt.Errorf("node %d of level %d is not in the tree", n, level)
		}
		found = append(found, perfect(f[tall][from:to]))
	}
	return found, nil
}

func (f forest) rootAt(size int64) (tlog.Hash, error) {
	if size == 0 {
		return sha256.Sum256(nil), nil
	}
	return tlog.TreeHash(size, f)
}

// place is a tile's coordinates; level -1 is that of the entries.
type place struct {
	level int
	n     int64
	width int
}

func (p place) String() string {
	number := fmt.Sprintf("%03d", p.n%1000)
	for rest := p.n / 1000; rest > 0; rest /= 1000 {
		number = fmt.Sprintf("x%03d/%s", rest%1000, number)
	}
	level := "entries"
	if p.level >= 0 {
		level = strconv.Itoa(p.level)
	}
	path := "tile/" + level + "/" + number
	if p.width < tileWidth {
		path += ".p/" + strconv.Itoa(p.width)
	}
	return path
}

func parsePlace(path string) (place, bool) {
	p := place{level: -1, width: tileWidth}
	parts := strings.Split(path, "/")
	if len(parts) < 3 || parts[0] != "tile" {
		return p, false
	}
	var err error
	if parts[1] != "entries" {
		if p.level, err = strconv.Atoi(parts[1]); err != nil || p.level < 0 || p.level > 63 {
			return p, false
		}
	}
	number := parts[2:]
	if before := len(number) - 2; before >= 0 && strings.HasSuffix(number[before], ".p") {
		if p.width, err = strconv.Atoi(number[before+1]); err != nil || p.width < 1 || p.width >= tileWidth {
			return p, false
		}
		number = append(append([]string{}, number[:before]...), strings.TrimSuffix(number[before], ".p"))
	}
	for _, group := range number {
		digits, err := strconv.ParseInt(strings.TrimPrefix(group, "x"), 10, 64)
		if err != nil || p.n > 1<<50 {
			return p, false
		}
		p.n = p.n*1000 + digits
	}
	return p, p.String() == path
}

// places returns the tiles of one level that a row of so many entries or hashes fills.
func places(level int, count int64) []place {
	var all []place
	for n := int64(0); n*tileWidth < count; n++ {
		width := int64(tileWidth)
		if rest := count - n*tileWidth; rest < width {
			width = rest
		}
		all = append(all, place{level, n, int(width)})
	}
	return all
}

// split cuts the bytes of a tile into its entries or hashes, all of them.
func (p place) split(data []byte) ([][]byte, error) {
	items := make([][]byte, 0, p.width)
	for len(items) < p.width {
		length, skip := tlog.HashSize, 0
		if p.level < 0 {
			if len(data) < 2 {
				return nil, fmt.Errorf("%v: cut short at entry %d", p, len(items))
			}
			length, skip = int(data[0])<<8|int(data[1]), 2
		}
		if len(data) < skip+length {
			return nil, fmt.Errorf("%v: cut short at item %d", p, len(items))
		}
		items = append(items, data[skip:skip+length])
		data = data[skip+length:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%v: %d bytes too many", p, len(data))
	}
	return items, nil
}

// load reads a tile, or the beginning of the full one where the partial one is gone.
func load(dir string, p place) ([][]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p.String())))
	from := p
	if errors.Is(err, fs.ErrNotExist) && p.width < tileWidth {
		from.width = tileWidth
		if full, fullErr := os.ReadFile(filepath.Join(dir, filepath.FromSlash(from.String()))); fullErr == nil {
			data, err = full, nil
		}
	}
	if err != nil {
		return nil, err
	}
	items, err := from.split(data)
	if err != nil {
		return nil, err
	}
	return items[:p.width], nil
}

// hash returns what the tree says of an item of this tile: entries stand there as their leaf hashes.
func (p place) hash(item []byte) (h tlog.Hash) {
	if p.level < 0 {
		return tlog.RecordHash(item)
	}
	copy(h[:], item)
	return h
}

// compare holds the items of a tile to the forest, as far as the forest reaches.
func (f forest) compare(p place, items [][]byte) error {
	row := p.level
	if row < 0 {
		row = 0
	}
	if row >= len(f) {
		return nil
	}
	for i, item := range items {
		at := p.n*tileWidth + int64(i)
		if at < int64(len(f[row])) && p.hash(item) != f[row][at] {
			return fmt.Errorf("%v: item %d is not what the entries give", p, i)
		}
	}
	return nil
}

// checkTiles reads every entry and every tile that the size calls for, and looks at the others.
func checkTiles(dir string, size int64, areStatements bool) (forest, int, error) {
	var leaves []tlog.Hash
	seen := map[place]bool{}
	for _, p := range places(-1, size) {
		items, err := load(dir, p)
		if err != nil {
			return nil, 0, err
		}
		for i, item := range items {
			if areStatements && !bytes.HasPrefix(item, []byte{0xd2, 0x84}) {
				return nil, 0, fmt.Errorf("%v: entry %d is not a tagged COSE_Sign1 message", p, i)
			}
			leaves = append(leaves, p.hash(item))
		}
		seen[p] = true
	}
	f := plant(leaves)
	tiles := 0
	for level, row := range f {
		for _, p := range places(level, int64(len(row))) {
			items, err := load(dir, p)
			if err != nil {
				return nil, 0, err
			}
			if err := f.compare(p, items); err != nil {
				return nil, 0, err
			}
			seen[p] = true
			tiles++
		}
	}
	err := filepath.WalkDir(filepath.Join(dir, "tile"), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && size == 0 {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		p, ok := parsePlace(filepath.ToSlash(name))
		if !ok {
			return fmt.Errorf("%s is not the name of a tile", name)
		}
		if seen[p] {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		items, err := p.split(data)
		if err != nil {
			return err
		}
		return f.compare(p, items)
	})
	return f, tiles, err
}

// checkProof holds a .tlog-proof file to its own tree head and to the bytes of an entry.
func checkProof(proofFile, entryFile string, s signers) error {
	entry, err := os.ReadFile(entryFile)
	if err != nil {
		return err
	}
	lines, h, err := readProof(proofFile, s)
	if err != nil {
		return err
	}
	if len(lines) < 2 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return errors.New("not a tlog-proof")
	}
	index, err := numberLine(lines[1], "index ")
	if err != nil {
		return err
	}
	if index >= h.size {
		return fmt.Errorf("index %d is not below size %d", index, h.size)
	}
	path, err := hashLines(lines[2:])
	if err != nil {
		return err
	}
	return tlog.CheckRecord(path, h.size, h.root, index, tlog.RecordHash(entry))
}

// checkConsistency holds a consistency proof to its own tree head and to an earlier one.
func checkConsistency(proofFile, oldFile string, s signers) error {
	text, err := os.ReadFile(oldFile)
	if err != nil {
		return err
	}
	old, err := s.open(text)
	if err != nil {
		return err
	}
	lines, h, err := readProof(proofFile, s)
	if err != nil {
		return err
	}
	from, err := numberLine(lines[0], "old ")
	if err != nil {
		return err
	}
	if from != old.size {
		return fmt.Errorf("the proof begins at size %d, the earlier head has %d", from, old.size)
	}
	path, err := hashLines(lines[1:])
	if err != nil {
		return err
	}
	// The package has no proofs from the empty tree.
	if from == 0 {
		if len(path) > 0 {
			return errors.New("a proof from the empty log has no hashes")
		}
		return nil
	}
	if from > h.size {
		return fmt.Errorf("size %d is not at or above size %d", h.size, from)
	}
	return tlog.CheckTree(path, h.size, h.root, from, old.root)
}

// readProof parts a proof file into the lines before the blank one and the tree head, which it checks.
func readProof(file string, s signers) ([]string, head, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, head{}, err
	}
	before, signed, found := bytes.Cut(text, []byte("\n\n"))
	if !found {
		return nil, head{}, errors.New("no tree head in it")
	}
	h, err := s.open(signed)
	return strings.Split(string(before), "\n"), h, err
}

func numberLine(line, word string) (int64, error) {
	number, err := strconv.ParseInt(strings.TrimPrefix(line, word), 10, 64)
	if err != nil || number < 0 || fmt.Sprintf("%s%d", word, number) != line {
		return 0, fmt.Errorf("bad %sline %q", word, line)
	}
	return number, nil
}

func hashLines(lines []string) (path []tlog.Hash, err error) {
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		if err != nil || hash.String() != line {
			return nil, fmt.Errorf("bad hash line %q", line)
		}
		path = append(path, hash)
	}
	return path, nil
}

// Of CBOR only what a head file has: short-form heads, strings, an array and one map of text keys.
const (
	cborUint  = 0
	cborBytes = 2
	cborText  = 3
	cborArray = 4
	cborMap   = 5
)

type cbor struct{ rest []byte }

func (c *cbor) head() (major byte, value uint64, err error) {
	if len(c.rest) == 0 {
		return 0, 0, errors.New("CBOR: cut short")
	}
	first := c.rest[0]
	major, value = first>>5, uint64(first&31)
	c.rest = c.rest[1:]
	if value < 24 {
		return major, value, nil
	}
	if value > 27 {
		return 0, 0, errors.New("CBOR: indefinite or reserved length")
	}
	width := 1 << (value - 24)
	if len(c.rest) < width {
		return 0, 0, errors.New("CBOR: cut short")
	}
	value = 0
	for _, digit := range c.rest[:width] {
		value = value<<8 | uint64(digit)
	}
	c.rest = c.rest[width:]
	return major, value, nil
}

func (c *cbor) want(major byte) (uint64, error) {
	found, value, err := c.head()
	if err == nil && found != major {
		err = fmt.Errorf("CBOR: major type %d where %d is wanted", found, major)
	}
	return value, err
}

func (c *cbor) str(major byte) ([]byte, error) {
	size, err := c.want(major)
	if err != nil {
		return nil, err
	}
	if size > uint64(len(c.rest)) {
		return nil, errors.New("CBOR: cut short")
	}
	run := c.rest[:size]
	c.rest = c.rest[size:]
	return run, nil
}

// headFile is one commit: the statements that it appended and both signatures of the root that they led to.
type headFile struct {
	extends    uint64
	statements [][]byte
	note       []byte
	receipt    []byte
}

func parseHeadFile(data []byte) (h headFile, err error) {
	c := cbor{data}
	fields, err := c.want(cborMap)
	for ; fields > 0 && err == nil; fields-- {
		var key []byte
		if key, err = c.str(cborText); err != nil {
			break
		}
		switch string(key) {
		case "v":
			_, err = c.want(cborUint)
		case "extends":
			h.extends, err = c.want(cborUint)
		case "note":
			h.note, err = c.str(cborText)
		case "receipt":
			h.receipt, err = c.str(cborBytes)
		case "statements":
			var count uint64
			for count, err = c.want(cborArray); count > 0 && err == nil; count-- {
				var statement []byte
				statement, err = c.str(cborBytes)
				h.statements = append(h.statements, statement)
			}
		default:
			err = fmt.Errorf("unknown field %q", key)
		}
	}
	if err == nil && len(c.rest) > 0 {
		err = errors.New("bytes after the map")
	}
	return h, err
}

// checkHeadFile holds a head file to the log and returns the root that it signs.
func checkHeadFile(h headFile, s signers, f forest) (root tlog.Hash, err error) {
	signed, err := s.open(h.note)
	if err != nil {
		return root, err
	}
	if h.extends+uint64(len(h.statements)) != uint64(signed.size) {
		return root, errors.New("the statements do not lead to the size in its note")
	}
	known := int64(len(f[0]))
	for i, statement := range h.statements {
		at := int64(h.extends) + int64(i)
		if at < known && tlog.RecordHash(statement) != f[0][at] {
			return root, fmt.Errorf("entry %d of the log is another statement", at)
		}
	}
	if signed.size <= known {
		ours, err := f.rootAt(signed.size)
		if err != nil {
			return root, err
		}
		if ours != signed.root {
			return root, fmt.Errorf("the log has root %v at size %d", ours, signed.size)
		}
	}
	return signed.root, nil
}

// checkReceipt holds COSE bytes to the one form that they have for a key and a root.
func checkReceipt(receipt []byte, root tlog.Hash, key ed25519.PublicKey) error {
	// RFC 9679: SHA-256 of {1: 1, -1: 6, -2: key}
	thumbprint := sha256.Sum256(append([]byte{0xa3, 0x01, 0x01, 0x20, 0x06, 0x21, 0x58, 0x20}, key...))
	// {1: -8, 4: thumbprint, 395: 1}
	protected := append([]byte{0xa3, 0x01, 0x27, 0x04, 0x58, 0x20}, thumbprint[:]...)
	protected = append(protected, 0x19, 0x01, 0x8b, 0x01)
	// 18([protected, {}, null, 64 bytes])
	form := append([]byte{0xd2, 0x84, 0x58, byte(len(protected))}, protected...)
	form = append(form, 0xa0, 0xf6, 0x58, ed25519.SignatureSize)
	if len(receipt) != len(form)+ed25519.SignatureSize || !bytes.HasPrefix(receipt, form) {
		return errors.New("not a receipt signature by this key")
	}
	// ["Signature1", protected, h'', root]
	message := append([]byte("\x84\x6aSignature1\x58"), byte(len(protected)))
	message = append(message, protected...)
	message = append(message, 0x40, 0x58, tlog.HashSize)
	message = append(message, root[:]...)
	if !ed25519.Verify(key, message, receipt[len(form):]) {
		return fmt.Errorf("the receipt signature does not hold for root %v", root)
	}
	return nil
}

func checkReceiptFile(file, keyHex string, s signers, f forest, now head) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(keyHex)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return errors.New("a key is 64 hex digits")
	}
	receipt, root := data, now.root
	if len(data) > 0 && data[0]>>5 == cborMap {
		h, err := parseHeadFile(data)
		if err != nil {
			return err
		}
		if root, err = checkHeadFile(h, s, f); err != nil {
			return err
		}
		receipt = h.receipt
	}
	return checkReceipt(receipt, root, key)
}

// list is a flag that may stand several times.
type list []string

func (l *list) String() string         { return strings.Join(*l, " ") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

// noLog stands in place of a directory where only proofs are to be checked.
const noLog = "-"

// request is the command line.
type request struct {
	dir, vkeys, old, consistency, proof, entry string
	areStatements                              bool
	receipts, keys                             list
}

func parseArgs(args []string) (request, bool) {
	var r request
	flags := flag.NewFlagSet("verifier", flag.ContinueOnError)
	flags.StringVar(&r.old, "old", "", "an earlier signed tree head")
	flags.StringVar(&r.consistency, "consistency", "", "a proof that leads from the head after -old to a later one")
	flags.StringVar(&r.proof, "proof", "", "a .tlog-proof file")
	flags.StringVar(&r.entry, "entry", "", "the entry that -proof is for")
	flags.BoolVar(&r.areStatements, "statements", false, "entries are COSE_Sign1 messages")
	flags.Var(&r.receipts, "receipt", "a receipt signature or head file")
	flags.Var(&r.keys, "key", "the public key that signed the receipt, in hex")
	var words []string
	// Go's flags end at the first word; here they may follow.
	for len(args) > 0 {
		if flags.Parse(args) != nil {
			return r, false
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	fits := len(words) == 2 && (r.proof == "") == (r.entry == "")
	fits = fits && (len(r.receipts) == len(r.keys) || len(r.keys) == 1 && len(r.receipts) > 0)
	fits = fits && (len(r.receipts) == 0 || r.areStatements)
	fits = fits && (r.consistency == "" || r.old != "")
	if fits && words[0] == noLog {
		fits = (r.consistency != "") == (r.old != "") && len(r.receipts) == 0 && r.proof+r.consistency != ""
	}
	if !fits {
		fmt.Fprintln(os.Stderr, "usage: verifier DIR VKEYS [flags]")
		flags.PrintDefaults()
		return r, false
	}
	r.dir, r.vkeys = words[0], words[1]
	return r, true
}

func verify(r request) (string, error) {
	s, err := readSigners(r.vkeys)
	if err != nil {
		return "", err
	}
	if r.proof != "" {
		if err := checkProof(r.proof, r.entry, s); err != nil {
			return "", fmt.Errorf("%s: %w", r.proof, err)
		}
	}
	if r.consistency != "" {
		if err := checkConsistency(r.consistency, r.old, s); err != nil {
			return "", fmt.Errorf("%s: %w", r.consistency, err)
		}
	}
	if r.dir == noLog {
		return "ok", nil
	}
	signed, err := os.ReadFile(filepath.Join(r.dir, "checkpoint"))
	if err != nil {
		return "", err
	}
	now, err := s.open(signed)
	if err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	f, tiles, err := checkTiles(r.dir, now.size, r.areStatements)
	if err != nil {
		return "", err
	}
	root, err := f.rootAt(now.size)
	if err != nil {
		return "", err
	}
	if root != now.root {
		return "", fmt.Errorf("the entries have root %v, the checkpoint says %v", root, now.root)
	}
	if r.old != "" {
		if err := checkOld(r.old, s, f, now); err != nil {
			return "", fmt.Errorf("%s: %w", r.old, err)
		}
	}
	for i, file := range r.receipts {
		if err := checkReceiptFile(file, r.keys[i%len(r.keys)], s, f, now); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	text := base64.StdEncoding.EncodeToString(root[:])
	return fmt.Sprintf("ok size=%d root=%s entries=%d tiles=%d", now.size, text, len(f[0]), tiles), nil
}

func checkOld(file string, s signers, f forest, now head) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	old, err := s.open(text)
	if err != nil {
		return err
	}
	if old.size > now.size {
		return fmt.Errorf("the log had %d entries and has %d: it was rolled back", old.size, now.size)
	}
	root, err := f.rootAt(old.size)
	if err != nil {
		return err
	}
	if root != old.root {
		return fmt.Errorf("the log had root %v at size %d and now has %v there: a fork", old.root, old.size, root)
	}
	return nil
}

func main() {
	r, ok := parseArgs(os.Args[1:])
	if !ok {
		os.Exit(2)
	}
	line, err := verify(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifier:", err)
		os.Exit(1)
	}
	fmt.Println(line)
}
