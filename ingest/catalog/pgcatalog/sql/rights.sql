-- rights_missing returns the rights that this user lacks, as GRANT names them, each with the
-- user's name.
SELECT format('CREATE ON DATABASE %I TO %I', current_database(), current_user)
WHERE to_regnamespace('headroom_catalog') IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT format('USAGE ON SCHEMA headroom_catalog TO %I', current_user) FROM pg_namespace
WHERE nspname = 'headroom_catalog' AND NOT has_schema_privilege(oid, 'USAGE')
UNION ALL
SELECT * FROM (
	SELECT format('%s ON headroom_catalog.%I TO %I', string_agg(needed, ', ' ORDER BY needed), relname, current_user)
	FROM pg_class CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
	WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'headroom_catalog') AND relkind = 'r'
		AND NOT has_table_privilege(pg_class.oid, needed) AND (relname <> 'schema_version' OR needed = 'SELECT')
	GROUP BY relname ORDER BY relname
) AS tables;
