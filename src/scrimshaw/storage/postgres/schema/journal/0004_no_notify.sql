-- Workers look for jobs every half a second, as with SQLite: nobody listens any more.
DROP TRIGGER jobs_tell ON jobs;
DROP FUNCTION tell_of_job();
