-- The record of a fleet: tables that only the owner of this schema reaches, and functions that are the only way in.
--
-- Functions with SECURITY DEFINER are for hosts: each host has a login role of its own, with EXECUTE on them and no right
-- on any table. A role speaks for its own host only; berth.admits() checks that in every call that names a host.
-- All of them pin search_path, and none builds SQL from text.

CREATE SCHEMA berth;

CREATE TABLE berth.fleet (
    id            uuid    NOT NULL DEFAULT gen_random_uuid(),
    format        int     NOT NULL,
    oldest_reader int     NOT NULL,
    only_row      boolean PRIMARY KEY DEFAULT true CHECK (only_row)
);
INSERT INTO berth.fleet (format, oldest_reader) VALUES (1, 1);

CREATE TABLE berth.host (
    id          int    PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name        text   COLLATE "C" NOT NULL UNIQUE,
    role        name   NOT NULL UNIQUE DEFAULT session_user,
    incarnation bigint NOT NULL DEFAULT 0,
    heartbeat   bigint NOT NULL DEFAULT 0,
    labels      text[] NOT NULL DEFAULT '{}',
    slots       int    NOT NULL DEFAULT 0,
    used        int    NOT NULL DEFAULT 0,
    state       text   NOT NULL DEFAULT 'here' CHECK (state IN ('here', 'cordoned', 'draining', 'down', 'left')),
    reach       text,
    facts       text
) WITH (fillfactor = 50);

-- The fence. An append changes seq and live only: no index has them, so the update stays in its page.
CREATE TABLE berth.session (
    id           text   COLLATE "C" PRIMARY KEY,
    team         text   COLLATE "C" NOT NULL DEFAULT '',
    name         text   COLLATE "C",
    key          text   COLLATE "C",
    host         int    REFERENCES berth.host,
    term         bigint NOT NULL,
    seq          bigint NOT NULL,
    began        bigint NOT NULL,      -- number of the event that began the term
    live         bigint,               -- epoch of the run that may be alive
    wants        text[] NOT NULL DEFAULT '{}',
    on_host_loss text   NOT NULL CHECK (on_host_loss IN ('wait', 'take_over')),
    format       int    NOT NULL,
    UNIQUE (team, key),
    UNIQUE (team, name)
) WITH (fillfactor = 50);
CREATE INDEX session_of_host ON berth.session (host, id);

-- No foreign key to the session: an event is inserted only behind the fence.
CREATE TABLE berth.event (
    session text   COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    term    bigint NOT NULL,
    body    text   NOT NULL CHECK (octet_length(body) <= 33554432),
    PRIMARY KEY (session, seq)
);

CREATE TABLE berth.conversation (
    kind      text COLLATE "C" NOT NULL,
    native_id text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL REFERENCES berth.session,
    PRIMARY KEY (kind, native_id)
);

CREATE TABLE berth.inbox (
    session text   COLLATE "C" NOT NULL REFERENCES berth.session,
    key     text   COLLATE "C" NOT NULL,
    n       bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    kind    text   NOT NULL,
    body    text   NOT NULL CHECK (octet_length(body) <= 33554432),
    state   text   NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'taken', 'refused', 'withdrawn')),
    turn    bigint,                    -- number of the event that accepts it
    poster  int    NOT NULL,
    PRIMARY KEY (session, key)
);
CREATE INDEX inbox_waiting ON berth.inbox (session, n) WHERE state = 'waiting';

-- Sessions that were claimed from a host and whose loss it has not acknowledged.
CREATE TABLE berth.taken (
    host    int    NOT NULL,
    session text   COLLATE "C" NOT NULL,
    term    bigint NOT NULL,
    PRIMARY KEY (host, session, term)
);

-- Derived, for lists only.
CREATE TABLE berth.listing (
    session      text   COLLATE "C" PRIMARY KEY,
    team         text   COLLATE "C" NOT NULL DEFAULT '',
    rank         int    NOT NULL,
    active_at_ms bigint NOT NULL,
    host         int    NOT NULL,
    status       text   NOT NULL,
    changed      xid8   NOT NULL
);
CREATE INDEX listing_order ON berth.listing (rank, (-active_at_ms), session);
CREATE INDEX listing_changed ON berth.listing (changed, session);

CREATE TABLE berth.audit (
    n       bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    role    name        NOT NULL DEFAULT session_user,
    host    int,
    session text,
    what    text        NOT NULL
);

-- Helpers for the functions below; hosts may not call them.

-- Makes sure that the commit waits for the standby, and that a cancelled wait is told, whatever the settings of the role
-- say.
CREATE FUNCTION berth.commit_loudly() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF current_setting('client_min_messages') = 'error' THEN
        PERFORM set_config('client_min_messages', 'warning', true);
    END IF;
END $$;

-- True if the login role speaks for this host. A rejection is answered and not raised, so that its audit row stays; the
-- server's log has it as well, in case the caller rolls back.
CREATE FUNCTION berth.admits(by_host int, of_session text, call text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM berth.commit_loudly();
    IF EXISTS (SELECT FROM berth.host WHERE id = by_host AND role = session_user AND state <> 'left') THEN
        RETURN true;
    END IF;
    INSERT INTO berth.audit (host, session, what) VALUES (by_host, of_session, 'rejected: ' || call);
    RAISE LOG 'berth: % called % for host %, and was rejected', session_user, call, by_host;
    RETURN false;
END $$;

-- Makes this commit wait for the standby although it has nothing to write: the answer depends on rows that may be
-- committed here and not replicated yet. Locks no row of others.
CREATE FUNCTION berth.wait_for_standby(by_host int) RETURNS void
LANGUAGE sql AS $$ UPDATE berth.host SET used = used WHERE id = by_host $$;

-- Of the events up to `recorded`: a later event is not recorded yet, so its key is neither taken nor lost.
CREATE FUNCTION berth.not_taken(of_session text, took_keys text[], took_turns bigint[], recorded bigint) RETURNS text[]
LANGUAGE sql AS $$
    SELECT coalesce(array_agg(took.key), '{}') FROM unnest(took_keys, took_turns) AS took (key, turn)
    WHERE took.turn <= recorded AND NOT EXISTS (SELECT FROM berth.inbox AS post WHERE post.session = of_session AND post.key = took.key
                      AND post.state = 'taken' AND post.turn = took.turn)
$$;

-- For the owner of the schema: gives every host's role what it may call. Run again after each migration.
CREATE FUNCTION berth.grant_hosts() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    member berth.host;
    callable regprocedure;
BEGIN
    FOR callable IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'berth'::regnamespace LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', callable);
    END LOOP;
    FOR member IN SELECT * FROM berth.host WHERE state <> 'left' LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA berth TO %I', member.role);
        FOR callable IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'berth'::regnamespace AND prosecdef LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', callable, member.role);
        END LOOP;
    END LOOP;
END $$;

-- For the owner of the schema: adds a host. Its login role exists already.
CREATE FUNCTION berth.admit_host(host_name text, host_role name) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    new_id int;
BEGIN
    INSERT INTO berth.host (name, role) VALUES (host_name, host_role) RETURNING id INTO new_id;
    PERFORM berth.grant_hosts();
    RETURN new_id;
END $$;

-- For the owner of the schema: the host leaves the fleet. Its role keeps no right. Its sessions keep their owner until
-- another host claims them; those with a live run that must be waited for stay as they are.
CREATE FUNCTION berth.remove_host(host_name text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    its_role name;
BEGIN
    UPDATE berth.host SET state = 'left' WHERE name = host_name AND state <> 'left' RETURNING role INTO its_role;
    IF NOT FOUND THEN RETURN false; END IF;
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA berth FROM %I', its_role);
    EXECUTE format('REVOKE ALL ON SCHEMA berth FROM %I', its_role);
    RETURN true;
END $$;

-- The calls of a host.

-- Never changes its name or its columns: a host of any version asks this first.
CREATE FUNCTION berth.about(OUT id uuid, OUT format int, OUT oldest_reader int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT id, format, oldest_reader FROM berth.fleet
$$;

CREATE FUNCTION berth.own_host() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT id FROM berth.host WHERE role = session_user AND state <> 'left'
$$;

CREATE FUNCTION berth.create_session(
    of_session text, by_host int, is_owned boolean, its_name text, its_key text, its_kind text, its_native_id text,
    its_wants text[], its_on_host_loss text, its_format int, bodies text[], live_run bigint,
    OUT answer text, OUT session text, OUT same text, OUT last bigint, OUT current_term bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    there berth.session;
BEGIN
    IF NOT berth.admits(by_host, of_session, 'create') THEN answer := 'rejected'; RETURN; END IF;
    answer := 'created';
    last := cardinality(bodies);
    current_term := CASE WHEN is_owned THEN 1 ELSE 0 END;
    -- A conflict of any unique value waits until the other transaction is done.
    BEGIN
        INSERT INTO berth.session (id, name, key, host, term, seq, began, live, wants, on_host_loss, format)
        VALUES (of_session, its_name, its_key, CASE WHEN is_owned THEN by_host END, current_term, last, 1, live_run,
                its_wants, its_on_host_loss, its_format);
        IF its_kind IS NOT NULL THEN
            INSERT INTO berth.conversation (kind, native_id, session) VALUES (its_kind, its_native_id, of_session);
        END IF;
        INSERT INTO berth.event (session, seq, term, body)
        SELECT of_session, given.n, current_term, given.body FROM unnest(bodies) WITH ORDINALITY AS given (body, n);
        RETURN;
    EXCEPTION WHEN unique_violation THEN
        NULL;
    END;
    PERFORM berth.wait_for_standby(by_host);
    SELECT * INTO there FROM berth.session AS s WHERE s.id = of_session;
    IF FOUND THEN
        IF there.seq >= last AND NOT EXISTS (
            SELECT FROM unnest(bodies) WITH ORDINALITY AS given (body, n)
            LEFT JOIN berth.event AS e ON e.session = of_session AND e.seq = given.n
            WHERE (e.term, e.body) IS DISTINCT FROM (current_term, given.body))
        THEN RETURN; END IF;
        answer := 'exists'; session := of_session; same := 'id';
        RETURN;
    END IF;
    answer := 'exists';
    SELECT other.id, other.same INTO session, same FROM (
        SELECT 1 AS place, s.id, 'key' AS same FROM berth.session AS s WHERE s.team = '' AND s.key = its_key
        UNION ALL SELECT 2, s.id, 'name' FROM berth.session AS s WHERE s.team = '' AND s.name = its_name
        UNION ALL SELECT 3, c.session, 'conversation' FROM berth.conversation AS c
                  WHERE c.kind = its_kind AND c.native_id = its_native_id) AS other
    ORDER BY other.place LIMIT 1;
END $$;

-- The fence is the UPDATE: its row lock orders it with a claim, and one statement inserts only what it let through. It
-- checks the role as well, so that an append that succeeds asks only once; berth.admits() finds out why one did not.
CREATE FUNCTION berth.append(
    of_session text, by_host int, under_term bigint, after_seq bigint, bodies text[], live_run bigint,
    took_keys text[], took_turns bigint[],
    OUT answer text, OUT last bigint, OUT current_term bigint, OUT not_taken text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    there berth.session;
BEGIN
    PERFORM berth.commit_loudly();
    WITH fence AS (
        UPDATE berth.session AS s SET seq = after_seq + cardinality(bodies), live = live_run
        FROM berth.host AS h
        WHERE s.id = of_session AND s.host = by_host AND s.term = under_term AND s.seq = after_seq
            AND h.id = by_host AND h.role = session_user AND h.state <> 'left'
        RETURNING s.seq
    ), added AS (
        INSERT INTO berth.event (session, seq, term, body)
        SELECT of_session, after_seq + given.n, under_term, given.body
        FROM fence, unnest(bodies) WITH ORDINALITY AS given (body, n)
    )
    SELECT seq INTO last FROM fence;
    IF FOUND THEN
        answer := 'ok';
        current_term := under_term;
        IF cardinality(took_keys) > 0 THEN
            UPDATE berth.inbox AS post SET state = 'taken', turn = given.turn
            FROM unnest(took_keys, took_turns) AS given (key, turn)
            WHERE post.session = of_session AND post.key = given.key AND post.state = 'waiting';
            not_taken := berth.not_taken(of_session, took_keys, took_turns, last);
        END IF;
        RETURN;
    END IF;
    IF NOT berth.admits(by_host, of_session, 'append') THEN answer := 'rejected'; RETURN; END IF;
    PERFORM berth.wait_for_standby(by_host);
    SELECT * INTO there FROM berth.session AS s WHERE s.id = of_session;
    last := there.seq;
    current_term := there.term;
    IF there.id IS NULL THEN
        answer := 'no_session';
    ELSIF there.host IS DISTINCT FROM by_host OR there.term <> under_term THEN
        answer := 'fenced';
    ELSIF there.seq < after_seq THEN
        answer := 'behind';
    ELSIF EXISTS (
        SELECT FROM unnest(bodies) WITH ORDINALITY AS given (body, n)
        JOIN berth.event AS e ON e.session = of_session AND e.seq = after_seq + given.n
        WHERE e.term <> under_term OR e.body <> given.body)
    THEN
        answer := 'diverged';
    ELSE
        answer := 'already';
        last := least(there.seq, after_seq + cardinality(bodies));
        not_taken := berth.not_taken(of_session, took_keys, took_turns, last);
    END IF;
END $$;

CREATE FUNCTION berth.release(
    of_session text, by_host int, under_term bigint, after_seq bigint, with_body text,
    OUT answer text, OUT last bigint, OUT current_term bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    there berth.session;
BEGIN
    IF NOT berth.admits(by_host, of_session, 'release') THEN answer := 'rejected'; RETURN; END IF;
    WITH fence AS (
        UPDATE berth.session AS s SET seq = after_seq + 1, host = NULL, live = NULL
        WHERE s.id = of_session AND s.host = by_host AND s.term = under_term AND s.seq = after_seq
        RETURNING s.seq
    ), added AS (
        INSERT INTO berth.event (session, seq, term, body) SELECT of_session, seq, under_term, with_body FROM fence
    )
    SELECT seq INTO last FROM fence;
    IF FOUND THEN answer := 'ok'; current_term := under_term; RETURN; END IF;
    PERFORM berth.wait_for_standby(by_host);
    SELECT * INTO there FROM berth.session AS s WHERE s.id = of_session;
    last := there.seq;
    current_term := there.term;
    IF there.id IS NULL THEN
        answer := 'no_session';
    ELSIF there.host IS NULL AND there.term = under_term AND there.seq = after_seq + 1 AND EXISTS (
        SELECT FROM berth.event AS e
        WHERE e.session = of_session AND e.seq = there.seq AND e.term = under_term AND e.body = with_body)
    THEN
        answer := 'already';
    ELSIF there.host IS DISTINCT FROM by_host OR there.term <> under_term THEN
        answer := 'fenced';
    ELSE
        answer := CASE WHEN there.seq < after_seq THEN 'behind' ELSE 'diverged' END;
    END IF;
END $$;

-- A host that is away is one whose heartbeat is still where the claiming host saw it. How long it was watched, the
-- claiming host knows: the record compares no clocks.
CREATE FUNCTION berth.claim(
    of_session text, by_host int, expected_term bigint, with_body text,
    watched_host int, watched_incarnation bigint, watched_heartbeat bigint,
    OUT answer text, OUT last bigint, OUT current_term bigint, OUT owner int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    seen berth.session;
BEGIN
    IF NOT berth.admits(by_host, of_session, 'claim') THEN answer := 'rejected'; RETURN; END IF;
    SELECT * INTO seen FROM berth.session AS s WHERE s.id = of_session;
    IF NOT FOUND THEN answer := 'no_session'; RETURN; END IF;
    current_term := seen.term;
    owner := seen.host;
    IF seen.term = expected_term + 1 AND seen.host = by_host AND EXISTS (
        SELECT FROM berth.event AS e WHERE e.session = of_session AND e.seq = seen.began AND e.body = with_body)
    THEN
        PERFORM berth.wait_for_standby(by_host);
        answer := 'ours';
        last := seen.began;
        RETURN;
    END IF;
    IF seen.term <> expected_term THEN answer := 'lost'; RETURN; END IF;
    IF seen.host <> by_host THEN
        IF seen.live IS NOT NULL AND seen.on_host_loss = 'wait' THEN answer := 'held'; RETURN; END IF;
        -- The lock makes a heartbeat that comes now wait, and tell its host about the loss.
        PERFORM FROM berth.host AS h WHERE h.id = seen.host AND (h.state = 'left' OR (h.id = watched_host
            AND h.incarnation = watched_incarnation AND h.heartbeat = watched_heartbeat)) FOR SHARE;
        IF NOT FOUND THEN answer := 'held'; RETURN; END IF;
    END IF;
    WITH fence AS (
        UPDATE berth.session AS s SET host = by_host, term = s.term + 1, seq = s.seq + 1, began = s.seq + 1,
            -- A host that claims its own session may have a run of it.
            live = CASE WHEN s.host = by_host THEN s.live END
        WHERE s.id = of_session AND s.term = expected_term AND s.host IS NOT DISTINCT FROM seen.host
            AND (s.host IS NULL OR s.host = by_host OR s.live IS NULL OR s.on_host_loss = 'take_over')
        RETURNING s.seq, s.term
    ), added AS (
        INSERT INTO berth.event (session, seq, term, body) SELECT of_session, seq, term, with_body FROM fence
    ), told AS (
        INSERT INTO berth.taken (host, session, term)
        SELECT seen.host, of_session, expected_term FROM fence WHERE seen.host <> by_host
    )
    SELECT seq, term INTO last, current_term FROM fence;
    IF FOUND THEN answer := 'ours'; owner := by_host; RETURN; END IF;
    SELECT s.term, s.host INTO current_term, owner FROM berth.session AS s WHERE s.id = of_session;
    answer := CASE WHEN current_term = expected_term AND owner IS NOT NULL THEN 'held' ELSE 'lost' END;
END $$;

CREATE FUNCTION berth.begin_incarnation(by_host int, OUT answer text, OUT began bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, NULL, 'begin_incarnation') THEN answer := 'rejected'; RETURN; END IF;
    UPDATE berth.host SET incarnation = incarnation + 1 WHERE id = by_host RETURNING incarnation INTO began;
    answer := 'ok';
END $$;

CREATE FUNCTION berth.heartbeat(
    by_host int, of_incarnation bigint, used_slots int,
    OUT answer text, OUT beat bigint, OUT lost_sessions text[], OUT lost_terms bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, NULL, 'heartbeat') THEN answer := 'rejected'; RETURN; END IF;
    UPDATE berth.host SET heartbeat = heartbeat + 1, used = used_slots WHERE id = by_host AND incarnation = of_incarnation
    RETURNING heartbeat INTO beat;
    IF NOT FOUND THEN
        PERFORM berth.wait_for_standby(by_host);
        answer := 'replaced';
        RETURN;
    END IF;
    answer := 'ok';
    SELECT coalesce(array_agg(t.session ORDER BY t.session, t.term), '{}'),
           coalesce(array_agg(t.term ORDER BY t.session, t.term), '{}')
    INTO lost_sessions, lost_terms FROM berth.taken AS t WHERE t.host = by_host;
END $$;

-- Commits something and waits for the standby: then everything that this connection has read is on the standby as well.
-- Not a heartbeat: a gateway that settles a call must not make a dead node look alive.
CREATE FUNCTION berth.barrier(by_host int, OUT answer text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, NULL, 'barrier') THEN answer := 'rejected'; RETURN; END IF;
    PERFORM berth.wait_for_standby(by_host);
    answer := 'ok';
END $$;

CREATE FUNCTION berth.acknowledge_loss(of_session text, by_host int, of_term bigint, OUT answer text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, of_session, 'acknowledge_loss') THEN answer := 'rejected'; RETURN; END IF;
    DELETE FROM berth.taken WHERE host = by_host AND session = of_session AND term = of_term;
    PERFORM berth.wait_for_standby(by_host);
    answer := 'ok';
END $$;

CREATE FUNCTION berth.post(
    of_session text, by_host int, with_key text, of_kind text, with_body text,
    OUT answer text, OUT n bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
DECLARE
    owner int;
    there berth.inbox;
BEGIN
    IF NOT berth.admits(by_host, of_session, 'post') THEN answer := 'rejected'; RETURN; END IF;
    SELECT s.host INTO owner FROM berth.session AS s WHERE s.id = of_session;
    IF NOT FOUND THEN answer := 'no_session'; RETURN; END IF;
    IF NOT EXISTS (SELECT FROM berth.inbox AS i WHERE i.session = of_session AND i.key = with_key) THEN
        IF (SELECT count(*) FROM berth.inbox AS i WHERE i.session = of_session AND i.state = 'waiting') >= 1000
        THEN answer := 'full'; RETURN; END IF;
        INSERT INTO berth.inbox AS i (session, key, kind, body, poster)
        VALUES (of_session, with_key, of_kind, with_body, by_host)
        ON CONFLICT (session, key) DO NOTHING RETURNING i.n INTO n;
        IF FOUND THEN
            answer := 'posted';
            PERFORM pg_notify('berth_host_' || owner, '') WHERE owner IS NOT NULL;
            RETURN;
        END IF;
    END IF;
    SELECT * INTO there FROM berth.inbox AS i WHERE i.session = of_session AND i.key = with_key;
    PERFORM berth.wait_for_standby(by_host);
    n := there.n;
    answer := CASE WHEN (there.kind, there.body) = (of_kind, with_body) THEN 'again' ELSE 'other_text' END;
END $$;

CREATE FUNCTION berth.withdraw(of_session text, by_host int, with_key text, OUT answer text, OUT turn bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, of_session, 'withdraw') THEN answer := 'rejected'; RETURN; END IF;
    UPDATE berth.inbox AS i SET state = 'withdrawn'
    WHERE i.session = of_session AND i.key = with_key AND i.state = 'waiting' RETURNING i.state INTO answer;
    IF NOT FOUND THEN
        PERFORM berth.wait_for_standby(by_host);
        SELECT i.state, i.turn INTO answer, turn FROM berth.inbox AS i WHERE i.session = of_session AND i.key = with_key;
        IF NOT FOUND THEN answer := 'no_post'; END IF;
    END IF;
END $$;

CREATE FUNCTION berth.publish(
    of_session text, by_host int, under_term bigint, its_rank int, its_active_at_ms bigint, its_status text, OUT answer text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, of_session, 'publish') THEN answer := 'rejected'; RETURN; END IF;
    INSERT INTO berth.listing (session, rank, active_at_ms, host, status, changed)
    SELECT s.id, its_rank, its_active_at_ms, by_host, its_status, pg_current_xact_id() FROM berth.session AS s
    WHERE s.id = of_session AND s.host = by_host AND s.term = under_term
    ON CONFLICT (session) DO UPDATE SET rank = excluded.rank, active_at_ms = excluded.active_at_ms,
        host = excluded.host, status = excluded.status, changed = excluded.changed;
    answer := CASE WHEN FOUND THEN 'ok' ELSE 'fenced' END;
END $$;

-- Reads of a host. Every host of the fleet may read all sessions, and one that left reads nothing; an inbox is read by the host of its sessions.

CREATE FUNCTION berth.session_of(of_session text)
RETURNS TABLE (host int, term bigint, seq bigint, live bigint, name text, on_host_loss text, format int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT s.host, s.term, s.seq, s.live, s.name, s.on_host_loss, s.format FROM berth.session AS s
    WHERE s.id = of_session AND berth.own_host() IS NOT NULL
$$;

CREATE FUNCTION berth.owned_sessions(by_host int, after_session text, most bigint)
RETURNS TABLE (session text, term bigint, seq bigint, live bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT s.id, s.term, s.seq, s.live FROM berth.session AS s
    WHERE s.host = by_host AND s.id > after_session AND berth.own_host() IS NOT NULL ORDER BY s.id LIMIT most
$$;

CREATE FUNCTION berth.find_session(its_name text, its_key text, its_kind text, its_native_id text)
RETURNS TABLE (session text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT found.id FROM (
        SELECT s.id FROM berth.session AS s WHERE s.team = '' AND s.name = its_name
        UNION ALL SELECT s.id FROM berth.session AS s WHERE s.team = '' AND s.key = its_key
        UNION ALL SELECT c.session FROM berth.conversation AS c WHERE c.kind = its_kind AND c.native_id = its_native_id
    ) AS found WHERE berth.own_host() IS NOT NULL LIMIT 1
$$;

CREATE FUNCTION berth.events(of_session text, from_seq bigint, most bigint)
RETURNS TABLE (seq bigint, term bigint, body text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT e.seq, e.term, e.body FROM berth.event AS e
    WHERE e.session = of_session AND e.seq >= from_seq AND berth.own_host() IS NOT NULL
    ORDER BY e.seq LIMIT most
$$;

CREATE FUNCTION berth.waiting(by_host int, after_n bigint, most bigint)
RETURNS TABLE (answer text, n bigint, session text, key text, kind text, body text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
BEGIN
    IF NOT berth.admits(by_host, NULL, 'inbox') THEN
        RETURN QUERY SELECT 'rejected', NULL::bigint, NULL, NULL, NULL, NULL;
        RETURN;
    END IF;
    RETURN QUERY SELECT 'ok', i.n, i.session, i.key, i.kind, i.body
    FROM berth.session AS s JOIN berth.inbox AS i ON i.session = s.id AND i.state = 'waiting'
    WHERE s.host = by_host AND i.n > after_n ORDER BY i.n LIMIT most;
END $$;

CREATE FUNCTION berth.hosts()
RETURNS TABLE (id int, name text, incarnation bigint, heartbeat bigint, used int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT h.id, h.name, h.incarnation, h.heartbeat, h.used FROM berth.host AS h
    WHERE h.state <> 'left' AND berth.own_host() IS NOT NULL ORDER BY h.id
$$;

CREATE FUNCTION berth.list_page(after_rank int, after_active_at_ms bigint, after_session text, most bigint)
RETURNS TABLE (session text, host int, rank int, active_at_ms bigint, status text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    SELECT l.session, l.host, l.rank, l.active_at_ms, l.status FROM berth.listing AS l
    WHERE (l.rank, -l.active_at_ms, l.session) > (after_rank, -after_active_at_ms, after_session)
        AND berth.own_host() IS NOT NULL
    ORDER BY l.rank, -l.active_at_ms, l.session LIMIT most
$$;

-- Rows of transactions before the oldest one that still runs: a smaller number cannot commit later. One row at least, so
-- that the caller learns where the feed ends.
CREATE FUNCTION berth.changes(since bigint, since_session text, most bigint)
RETURNS TABLE (feed_end bigint, changed bigint, session text, host int, rank int, active_at_ms bigint, status text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, berth, pg_temp AS $$
    WITH feed AS (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS feed_end)
    SELECT feed.feed_end::text::bigint, l.changed::text::bigint, l.session, l.host, l.rank, l.active_at_ms, l.status
    FROM feed LEFT JOIN LATERAL (
        SELECT * FROM berth.listing AS listed
        WHERE (listed.changed, listed.session) > (since::text::xid8, since_session) AND listed.changed < feed.feed_end
            AND berth.own_host() IS NOT NULL
        ORDER BY listed.changed, listed.session LIMIT most) AS l ON true
    ORDER BY l.changed, l.session
$$;

SELECT berth.grant_hosts();
