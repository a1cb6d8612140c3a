-- Views over `log`, the rows of the fetch log as they were written. Times are UTC, without a time zone.
--
-- attempts   one row per attempt
-- pages      one row per page that was archived, with what its parse brought
-- items      one row per item: its key, and the page that it came from (of a page, the first 100)
-- hosts      figures of each host; p50_ms and p95_ms without the wait for the host's turn
-- failures   attempts without a page, by failure class and host
-- cost       what was spent, by day and exit

-- A fingerprint as logs show it. Most have 16 digits, and `lpad` would take as long as all the rest.
CREATE MACRO trace_of(fingerprint) AS
    CASE WHEN fingerprint BETWEEN 0 AND 1152921504606846975 THEN lpad(lower(to_hex(fingerprint)), 16, '0')
    ELSE lower(to_hex(fingerprint)) END;

CREATE VIEW attempts AS
SELECT
    make_timestamp(epoch_us(started_at)) AS started_at,
    crawl,
    trace_of(fingerprint) AS trace,
    url, host, method, status, outcome, failure, reason, attempt, worker, pool, level,
    exit, address,
    sent = 1 AS sent,
    round(total_ms::DOUBLE, 1) AS total_ms,
    round(queue_ms::DOUBLE, 1) AS queue_ms,
    round(dns_ms::DOUBLE, 1) AS dns_ms,
    round(connect_ms::DOUBLE, 1) AS connect_ms,
    round(tls_ms::DOUBLE, 1) AS tls_ms,
    round(first_byte_ms::DOUBLE, 1) AS first_byte_ms,
    round(body_ms::DOUBLE, 1) AS body_ms,
    wire_bytes, body_bytes, requests, segment, "offset", length, items, links, version,
    CASE WHEN found_on = 0 THEN NULL ELSE trace_of(found_on) END AS found_on
FROM log
WHERE stage = 'fetch';

CREATE VIEW pages AS
WITH parsed AS (
    SELECT
        crawl, fingerprint, segment, "offset",
        max_by(outcome, started_at) AS outcome,
        max_by(items, started_at) AS items,
        max_by(links, started_at) AS links,
        max_by(version, started_at) AS version,
        max_by(worker, started_at) AS worker,
        max_by(parse_ms, started_at) AS parse_ms,
        max_by(item_keys, started_at) AS item_keys
    FROM log
    WHERE stage = 'parse'
    GROUP BY ALL
)
SELECT
    make_timestamp(epoch_us(f.started_at)) AS started_at,
    f.crawl,
    trace_of(f.fingerprint) AS trace,
    f.url, f.host, f.status,
    coalesce(p.outcome, f.outcome) AS outcome,
    f.worker AS fetched_by,
    coalesce(p.worker, CASE WHEN f.version <> '' THEN f.worker END) AS parsed_by,
    coalesce(nullif(p.version, ''), f.version) AS version,
    coalesce(p.items, f.items) AS items,
    coalesce(p.links, f.links) AS links,
    round(coalesce(p.parse_ms, f.parse_ms)::DOUBLE, 1) AS parse_ms,
    f.wire_bytes, f.body_bytes, f.segment, f."offset", f.length,
    coalesce(nullif(p.item_keys, ''), f.item_keys) AS item_keys
FROM log f
LEFT JOIN parsed p USING (crawl, fingerprint, segment, "offset")
WHERE f.stage = 'fetch' AND f.segment <> '' AND f.outcome <> 'lost';

CREATE VIEW items AS
SELECT
    started_at, crawl,
    unnest(
        CASE
            WHEN item_keys <> '' THEN string_split(item_keys, chr(10))
            WHEN items = 1 THEN [trace || '-0']
            ELSE list_transform(range(least(items, 100)), lambda n: trace || '-' || n)
        END
    ) AS key,
    url, trace, version, segment, "offset"
FROM pages
WHERE items > 0;

CREATE VIEW hosts AS
WITH figures AS (
    SELECT
        crawl, host,
        count(*) AS attempts,
        count(*) FILTER (segment <> '') AS pages,
        count(*) FILTER (failure <> '' AND sent = 1) AS failures,
        count(*) FILTER (sent = 1) AS requests,
        quantile_disc(total_ms - queue_ms, [0.5, 0.95]) AS latency,
        sum(wire_bytes)::BIGINT AS wire_bytes,
        sum(items)::BIGINT AS items,
        min(started_at) AS first_at,
        max(started_at) AS last_at
    FROM log
    WHERE stage = 'fetch'
    GROUP BY crawl, host
)
SELECT
    crawl, host, attempts, pages, failures,
    round(100 * pages / nullif(requests, 0), 1) AS success_percent,
    round(latency[1]::DOUBLE, 1) AS p50_ms,
    round(latency[2]::DOUBLE, 1) AS p95_ms,
    wire_bytes, items,
    make_timestamp(epoch_us(first_at)) AS first_at,
    make_timestamp(epoch_us(last_at)) AS last_at
FROM figures
ORDER BY attempts DESC, host;

CREATE VIEW failures AS
SELECT
    crawl, failure, host,
    count(*) AS attempts,
    count(*) FILTER (outcome = 'dead') AS dead,
    count(*) FILTER (outcome = 'retry') AS retried,
    max_by(status, started_at) AS last_status,
    max_by(reason, started_at) AS last_reason,
    max_by(url, started_at) AS last_url,
    make_timestamp(epoch_us(max(started_at))) AS last_at
FROM log
WHERE failure <> ''
GROUP BY crawl, failure, host
ORDER BY attempts DESC, failure, host;

CREATE VIEW cost AS
SELECT
    crawl,
    make_timestamp(epoch_us(started_at))::DATE AS day,
    exit,
    count(*) FILTER (sent = 1) AS requests,
    count(*) FILTER (stage = 'fetch' AND segment <> '') AS pages,
    sum(items)::BIGINT AS items,
    sum(wire_bytes)::BIGINT AS wire_bytes,
    round(sum(wire_bytes) / 1e9, 3) AS gigabytes,
    round(sum(total_ms - queue_ms) / 1000, 1) AS connection_s,
    round(sum(parse_ms) / 1000, 1) AS parse_cpu_s
FROM log
GROUP BY ALL
ORDER BY crawl, day, exit;
