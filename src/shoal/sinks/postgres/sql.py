"""The statements of the PostgreSQL sink; the sink replaces the names in braces with quoted ones."""

from importlib import resources

SCHEMA = resources.files("shoal.sinks.postgres").joinpath("schema.sql").read_text()

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
), put AS (
    {upsert}
    RETURNING xmax = 0 AS new
), counted AS (
    SELECT count(*) FILTER (WHERE new) AS new FROM put
)
UPDATE {schema}_shoal_outputs
SET flushes = $2, attempt = $4, note = coalesce($5, note), items = items + $6, rows = rows + new
FROM counted WHERE output = $1
RETURNING id, flushes, items, rows
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
UPDATE {schema}_shoal_outputs SET flushes = $2, attempt = NULL, items = $3, rows = $4
WHERE output = $1 AND EXISTS (SELECT 1 FROM first)
"""
COUNT = """
SELECT count(*) FROM {items} WHERE _id <= coalesce(
    (SELECT min(last_id) FROM {schema}_shoal_flushes WHERE output = $1 AND number > $2), 9223372036854775807
)
"""
