"""The statements of the PostgreSQL sink; the sink replaces the names in braces with quoted ones."""

from importlib import resources

SCHEMA = resources.files("shoal.sinks.postgres").joinpath("schema.sql").read_text()

# A hash of key and content of a row, the same on every server. Sums of it do not depend on the order of rows.
_HASH = "('x' || left(md5({key} || chr(1) || {item}::text), 16))::bit(64)::bigint"
_MODULUS = 1 << 62
CHECKSUMS = {
    "new_hash": _HASH.format(key="_key", item="item"),
    "old_hash": _HASH.format(key="items._key", item="items.item"),
    "kept_hash": _HASH.format(key="items._key", item="coalesce(later.item, items.item)"),
    "modulus": str(_MODULUS),
}
"""Values of the placeholders in the statements below."""

CHECKSUM_COLUMN = "ALTER TABLE {schema}_shoal_outputs ADD COLUMN IF NOT EXISTS checksum bigint"
CHECKSUM = """
UPDATE {schema}_shoal_outputs SET checksum = (
    SELECT mod(mod(coalesce(sum({new_hash}), 0), {modulus}) + {modulus}, {modulus}) FROM {items}
) WHERE output = $1 RETURNING checksum
"""

ITEMS = """
CREATE TABLE {items} (
    _id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    _key text PRIMARY KEY,
    item jsonb NOT NULL
)
"""
BATCH = """
CREATE TEMPORARY TABLE _shoal_batch (
    number bigint NOT NULL, _key text NOT NULL, item jsonb NOT NULL
) ON COMMIT DELETE ROWS
"""
UPSERT = """
    INSERT INTO {items} (_key, item) SELECT _key, item FROM _shoal_batch ORDER BY number
    ON CONFLICT (_key) DO UPDATE SET item = excluded.item
"""
# All parts of one statement see the same snapshot of the table.
PUT = """
WITH before AS (
    INSERT INTO {schema}_shoal_undo
    SELECT $1, $2, _id, items.item FROM {items} AS items JOIN _shoal_batch USING (_key)
    WHERE $5::bytea IS NULL
), numbered AS (
    INSERT INTO {schema}_shoal_flushes SELECT $1, $2, coalesce(max(_id), 0) FROM {items}
), expired AS (
    DELETE FROM {schema}_shoal_flushes WHERE output = $1 AND number <= $2 - $3
), undone AS (
    DELETE FROM {schema}_shoal_undo WHERE output = $1 AND flush <= $2 - $3
), replaced AS (
    SELECT coalesce(sum({old_hash}), 0) AS old_sum FROM {items} AS items JOIN _shoal_batch USING (_key)
), put AS (
    {upsert}
    RETURNING xmax = 0 AS new, {new_hash} AS hash
), counted AS (
    SELECT count(*) FILTER (WHERE new) AS new, coalesce(sum(hash), 0) AS new_sum FROM put
)
UPDATE {schema}_shoal_outputs
SET flushes = $2, attempt = $4, note = coalesce($5, note), items = items + $6, rows = rows + new,
    checksum = mod(mod(checksum + new_sum - old_sum, {modulus}) + {modulus}, {modulus})
FROM counted, replaced WHERE output = $1
RETURNING id, flushes, items, rows, checksum
"""
UNDO = """
WITH first AS (
    SELECT last_id FROM {schema}_shoal_flushes WHERE output = $1 AND number = $2 + 1
), gone AS (
    DELETE FROM {items} WHERE _id > (SELECT last_id FROM first)
), replaced AS (
    SELECT DISTINCT ON (_id) _id, item FROM {schema}_shoal_undo
    WHERE output = $1 AND flush > $2 AND _id <= (SELECT last_id FROM first) ORDER BY _id, flush
), back AS (
    UPDATE {items} AS items SET item = replaced.item FROM replaced WHERE items._id = replaced._id
), undone AS (
    DELETE FROM {schema}_shoal_undo WHERE output = $1 AND flush > $2
), unnumbered AS (
    DELETE FROM {schema}_shoal_flushes WHERE output = $1 AND number > $2
), accepted AS (
    DELETE FROM {schema}_shoal_rejected WHERE output = $1 AND flush > $2
)
UPDATE {schema}_shoal_outputs SET flushes = $2, attempt = NULL, items = $3, rows = $4, checksum = $5
WHERE output = $1 AND EXISTS (SELECT 1 FROM first)
"""
READ = "SELECT _id, _key, item::text AS item FROM {items} WHERE _id > $1 ORDER BY _id LIMIT $2"
# Rows that later flushes have replaced are counted as they were before.
COUNT = """
WITH later AS (
    SELECT DISTINCT ON (_id) _id, item FROM {schema}_shoal_undo
    WHERE output = $1 AND flush > $2 ORDER BY _id, flush
)
SELECT count(*), mod(mod(coalesce(sum({kept_hash}), 0), {modulus}) + {modulus}, {modulus})::bigint
FROM {items} AS items LEFT JOIN later USING (_id) WHERE _id <= coalesce(
    (SELECT min(last_id) FROM {schema}_shoal_flushes WHERE output = $1 AND number > $2), 9223372036854775807
)
"""
