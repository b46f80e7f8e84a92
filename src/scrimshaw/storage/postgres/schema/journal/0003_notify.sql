-- Workers listen on a channel with the name of the schema, so a job is begun when it comes and nobody keeps asking.
CREATE FUNCTION tell_of_job() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_notify(TG_TABLE_SCHEMA, ''); RETURN NULL; END $$;
CREATE TRIGGER jobs_tell AFTER INSERT OR UPDATE OF state ON jobs
    FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION tell_of_job();
