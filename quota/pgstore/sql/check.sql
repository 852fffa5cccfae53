-- rights_make returns the statements that give this user the rights to make the schema, or
-- to bring it up to date. Args: schema.
SELECT CASE WHEN s.oid IS NULL
	THEN format('GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user)
	ELSE format('GRANT %I TO %I; -- the owner of the schema', pg_get_userbyid(s.nspowner), current_user) END
FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS s ON s.nspname = $1::text
WHERE (s.oid IS NULL AND NOT has_database_privilege(current_database(), 'CREATE'))
	OR (s.oid IS NOT NULL AND NOT pg_has_role(s.nspowner, 'USAGE'));

-- rights_use returns the statements that give this user the rights to use the tables. Args:
-- schema.
SELECT format('GRANT USAGE ON SCHEMA %I TO %I;', s.nspname, current_user)
FROM pg_namespace AS s WHERE s.nspname = $1::text AND NOT has_schema_privilege(s.oid, 'USAGE')
UNION ALL
SELECT format('GRANT %s ON %I.%I TO %I;', string_agg(p.name, ', ' ORDER BY p.place), s.nspname, c.relname, current_user)
FROM pg_namespace AS s JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relkind = 'r'
CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) AS p (place, name)
WHERE s.nspname = $1::text AND NOT has_table_privilege(c.oid, p.name)
	AND (p.name = 'SELECT' OR c.relname NOT IN ('schema_version', 'identity'))
GROUP BY s.nspname, c.relname;

-- settings returns what a crash depends on. No args.
SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(),
	current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes');
