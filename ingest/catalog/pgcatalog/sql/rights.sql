-- rights_missing returns the statements that give this user the rights which it lacks, to make
-- a schema or to use its tables. The rows of a migration are read only. A sequence of an
-- identity column needs no right. Args: schema.
SELECT format('GRANT CREATE ON DATABASE %I TO %I;', current_database(), current_user)
WHERE to_regnamespace(quote_ident($1::text)) IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA %I TO %I;', s.nspname, current_user) FROM pg_namespace AS s
WHERE s.nspname = $1::text AND NOT has_schema_privilege(s.oid, 'USAGE')
UNION ALL
SELECT * FROM (
	SELECT format('GRANT %s ON %I.%I TO %I;', string_agg(p.name, ', ' ORDER BY p.place), s.nspname, c.relname, current_user)
	FROM pg_namespace AS s JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relkind = 'r'
	CROSS JOIN (VALUES (1, 'SELECT'), (2, 'INSERT'), (3, 'UPDATE'), (4, 'DELETE')) AS p (place, name)
	WHERE s.nspname = $1::text AND NOT has_table_privilege(c.oid, p.name)
		AND (p.name = 'SELECT' OR c.relname NOT IN ('schema_version', 'river_migration'))
	GROUP BY s.nspname, c.relname ORDER BY c.relname
) AS tables
UNION ALL
SELECT format('GRANT USAGE ON SEQUENCE %I.%I TO %I;', s.nspname, c.relname, current_user)
FROM pg_namespace AS s JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relkind = 'S'
WHERE s.nspname = $1::text AND CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
	AND NOT EXISTS (SELECT 1 FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i');
